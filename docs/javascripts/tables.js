// A wide table scrolls by itself. The keyboard reaches it, too.
const reach = () =>
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => table.setAttribute("tabindex", "0"));
new MutationObserver(reach).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
reach();
