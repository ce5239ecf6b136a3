"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const lines = document.getElementById(button.dataset.copy).children;
    const text = Array.from(lines, (line) => line.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text + "\n");
      button.textContent = "copied";
    } catch (error) {
      getSelection().selectAllChildren(
        document.getElementById(button.dataset.copy));
      button.textContent = "selected: copy it by hand";
    }
  });
}
