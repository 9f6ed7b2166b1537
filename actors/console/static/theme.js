// Before the page is drawn: light or dark, as was chosen, or as the system has it.
(() => {
  try {
    const chosen = localStorage.getItem("coterie-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* without storage the system decides */ }
})();
