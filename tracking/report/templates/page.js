"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  const boxes = [...document.querySelectorAll(".choices input")];
  root.classList.add("js");

  const rowOf = (node) => node?.closest?.(".row, .choices label");
  const nameOf = (row) => [...(row?.classList ?? [])].find((name) => /^row-\d+$/.test(name));
  const light = (row) => {
    const name = nameOf(row);
    document.querySelectorAll(".lit").forEach((node) => node.classList.remove("lit"));
    root.classList.toggle("pointed", Boolean(name));
    if (name) document.querySelectorAll(`.${name}`).forEach((node) => node.classList.add("lit"));
  };
  const say = (row, x, y) => {
    tip.hidden = !row?.dataset.tip;
    if (tip.hidden) return;
    tip.textContent = row.dataset.tip;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  };

  // The titles of parts of figures become the page's own tips, which appear at once.
  document.querySelectorAll("svg .row > title").forEach((title) => {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  });
  document.addEventListener("pointermove", (event) => {
    const row = rowOf(event.target);
    say(row, event.clientX, event.clientY);
    if (nameOf(row) !== light.last) light((light.last = nameOf(row), row));
  });
  document.addEventListener("focusin", (event) => light(rowOf(event.target)));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { tip.hidden = true; light(null); } });

  // The first row of a group that is shown has its letter.
  const letter = () => {
    let before = null;
    document.querySelectorAll("[data-group]").forEach((cell) => {
      if (!cell.getClientRects().length) return;
      const group = cell.dataset.group;
      cell.textContent = group === before ? "" : group;
      before = group;
    });
  };
  boxes.forEach((box) => box.addEventListener("change", letter));
  document.querySelectorAll("button[data-show]").forEach((button) =>
    button.addEventListener("click", () => {
      boxes.forEach((box) => { box.checked = button.dataset.show === "all"; });
      letter();
    }));

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));
})();
