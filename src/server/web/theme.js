// Sets the chosen appearance before the first paint.
(() => {
  let theme = "auto";
  try {
    theme = localStorage.getItem("flare-theme") ?? "auto";
  } catch {
    // No storage: the system's choice.
  }
  if (theme !== "auto") document.documentElement.dataset.theme = theme;
})();
