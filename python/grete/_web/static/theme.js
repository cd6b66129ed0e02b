// Sets the theme before the page is painted. "" follows the system.
(() => {
  const theme = localStorage.getItem("grete-theme") || "";
  if (theme) document.documentElement.dataset.theme = theme;
})();
