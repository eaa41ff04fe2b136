// Loaded before the first paint, so that a chosen theme does not flash in late.
"use strict";
(() => {
  const theme = localStorage.getItem("jobwire-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
