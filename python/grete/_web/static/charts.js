// Charts of time series. Data come as JSON: {times, series: {name: values}}, or {times, total_history}.
(() => {
  "use strict";
  const NAMES = {
    records: "Records", lag: "Lag", failures: "Failures", retries: "Retries", dead_letters: "Dead letters",
    oldest: "Age", busy: "Busy", workers: "Workers", rss: "Memory", total_history: "Lag",
  };
  const COLORS = { failures: 1, retries: 2, dead_letters: 3, busy: 0, workers: 4 };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit < 4) { value /= 1024; unit += 1; }
    return `${value >= 100 || unit === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
  }
  function millis(value) {
    if (value < 1000) return `${Math.round(value)} ms`;
    if (value < 60000) return `${(value / 1000).toFixed(1)} s`;
    if (value < 3600000) return `${(value / 60000).toFixed(1)} min`;
    return `${(value / 3600000).toFixed(1)} h`;
  }
  const FORMATS = { number: (value) => compact.format(value), bytes, ms: millis };
  const STEPS = {
    bytes: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].flatMap((n) => [n, n * 1024, n * 2 ** 20, n * 2 ** 30]).sort((a, b) => a - b),
    ms: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000,
         1800000, 3600000, 7200000, 21600000, 43200000, 86400000],
  };
  function clock(seconds, step) {
    const at = new Date(seconds * 1000);
    if (step >= 86400) return at.toLocaleDateString(undefined, { month: "short", day: "numeric" });
    const time = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
    return step >= 21600 ? [at.toLocaleDateString(undefined, { month: "short", day: "numeric" }), time].join("\n") : time;
  }
  const LEAST = 60;
  const charts = [];

  function options(element, names, format, unit) {
    const text = style("--muted");
    const grid = { stroke: style("--line"), width: 1 };
    const colors = ["--c0", "--c1", "--c2", "--c3", "--c4"].map(style);
    const axis = { stroke: text, grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width: Math.max(200, element.clientWidth),
      height: 190,
      legend: { show: true, live: true },
      cursor: { y: false, sync: { key: "grete" }, points: { size: 6 } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, space: 70, size: 36, values: (_, at, __, ___, step) => at.map((one) => clock(one, step)) },
        { ...axis, size: 66, space: 36, ...(STEPS[unit] ? { incrs: STEPS[unit] } : {}), values: (_, values) => values.map(format) },
      ],
      series: [
        { value: (_, at) => (at == null ? "–" : new Date(at * 1000).toLocaleString(undefined, { hour12: false })) },
        ...names.map((name) => {
          const color = colors[COLORS[name] || 0];
          return {
            label: NAMES[name] || name, stroke: color, width: 1.6, spanGaps: false, points: { show: false },
            fill: names.length === 1 ? `${color}22` : undefined,
            value: (_, value) => (value == null ? "–" : format(value)),
          };
        }),
      ],
    };
  }

  async function load(url) {
    const response = await fetch(url, { cache: "no-store" });
    if (!response.ok) throw new Error(String(response.status));
    return response.json();
  }

  function show(chart, data) {
    const columns = chart.names.map((name) => (data.series ? data.series[name] : data[name]));
    const hasData = columns.some((column) => column.some((value) => value != null));
    chart.element.classList.toggle("no-data", !hasData);
    // Time before the first value is left out, as long as some remains to be seen.
    const first = columns.reduce((least, column) => {
      const at = column.findIndex((value) => value != null);
      return at < 0 ? least : Math.min(least, at);
    }, data.times.length);
    const from = Math.max(0, Math.min(first - 2, data.times.length - LEAST));
    const values = [data.times, ...columns].map((column) => column.slice(from));
    chart.start = values[0][0];
    if (!chart.plot) {
      chart.plot = new uPlot(options(chart.element, chart.names, FORMATS[chart.unit], chart.unit), values, chart.element);
    } else {
      chart.plot.setData(values, !chart.isZoomed());
    }
    chart.data = data;
  }

  async function update() {
    const bySource = new Map();
    for (const chart of charts) {
      bySource.set(chart.source, [...(bySource.get(chart.source) || []), chart]);
    }
    for (const [source, members] of bySource) {
      try {
        const data = await load(source);
        for (const chart of members) show(chart, data);
      } catch { /* the page says that there is no answer */ }
    }
  }

  for (const element of document.querySelectorAll(".chart")) {
    const holder = element.closest("[data-range]");
    const chart = {
      element,
      unit: element.dataset.unit,
      source: element.dataset.source || `/api/series?range=${holder.dataset.range}`,
      names: element.dataset.source ? ["total_history"] : element.dataset.series.split(","),
      plot: null,
      isZoomed() {
        const { min, max } = this.plot.scales.x;
        const times = this.data.times;
        return min > this.start || max < times[times.length - 1];
      },
    };
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", `Chart: ${element.closest("figure").querySelector("figcaption").textContent}`);
    charts.push(chart);
  }
  function redraw() {
    for (const chart of charts) {
      if (!chart.plot) continue;
      chart.plot.destroy();
      chart.plot = null;
      show(chart, chart.data);
    }
  }
  document.addEventListener("grete:theme", redraw);
  document.addEventListener("grete:refreshed", update);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar changes the height alone
    width = innerWidth;
    redraw();
  });
  update();
})();
