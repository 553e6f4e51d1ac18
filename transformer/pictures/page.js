"use strict";
const tip = document.getElementById("tip");

// Beside the pointer, or right of a box that must stay visible.
const say = (text, event, box) => {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { width, height } = tip.getBoundingClientRect();
  const x = box && box.right + width < innerWidth ? box.right - 8 : event.clientX;
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
};

document.querySelectorAll("section").forEach((section) => {
  const data = JSON.parse(section.querySelector("script").textContent);
  const bytes = Uint8Array.from(atob(data.weights), (letter) => letter.charCodeAt(0));
  const { columns, grid, queries, keys } = data;
  const weight = (layer, head, query, key) =>
    bytes[(((layer - 1) * data.heads + head - 1) * queries.length + query) * keys.length + key] / 255;
  const figure = section.querySelector(".columns"), maps = section.querySelector(".maps svg");
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "g");
  drawn.setAttribute("class", "lines drawn");
  drawn.setAttribute("stroke-width", lineWidth);
  figure.querySelector("svg").append(drawn);
  const whole = { layer: data.layer, heads: data.shown };
  const isAsked = (query) => !data.only.length || data.only.includes(query);
  let shown = whole;
  const title = figure.querySelector("[data-name=title]"), wholeTitle = title.textContent;

  // Lines of the shown heads, for the queries and keys that pass.
  const draw = (passes, heads = shown.heads) => {
    const paths = [];
    heads.forEach((head, place) => {
      const offset = columns.offsets[shown.heads.length === 1 ? columns.offsets.length >> 1 : shown.heads.indexOf(head)];
      queries.forEach((_, query) => keys.forEach((_, key) => {
        const value = passes(query, key) ? weight(shown.layer, head, query, key) : 0;
        if (value < faintestLine) return;
        const y1 = columns.top + (query + 0.5) * columns.row + offset, y2 = columns.top + (key + 0.5) * columns.row + offset;
        paths.push(`<path stroke="${data.colors[head - 1]}" stroke-opacity="${value}" d="M${columns.left} ${y1}L${columns.right} ${y2}"/>`);
      }));
    });
    drawn.innerHTML = paths.join("");
  };
  const rest = () => {
    figure.classList.remove("pointed");
    figure.classList.toggle("chosen", shown !== whole);
    if (shown === whole) drawn.innerHTML = "";
    else draw(isAsked);
    title.textContent = shown === whole
      ? wholeTitle
      : `${wholeTitle.replace(/layer \d+/, `layer ${shown.layer}`)}, head ${shown.heads[0]}`;
    say("");
  };

  // For each head the strongest weight of a word.
  const strongest = (side, place) => shown.heads.map((head) => {
    const values = (side === "query" ? keys : queries).map((_, other) =>
      side === "query" ? weight(shown.layer, head, place, other) : weight(shown.layer, head, other, place));
    const best = values.indexOf(Math.max(...values));
    return `head ${head}: ${side === "query" ? `reads ${keys[best]}` : `read by ${queries[best]}`} ${values[best].toFixed(2)}`;
  }).join("\n");

  figure.addEventListener("pointermove", (event) => {
    const [side, number] = (event.target.dataset?.name ?? "").split("-");
    const place = Number(number);
    if (!number) return rest();
    figure.classList.add("pointed");
    if (side === "head") {
      if (shown === whole) draw(isAsked, [place]);
      return say("", event);
    }
    draw(side === "query" ? (query) => query === place : (_, key) => key === place);
    say(`${side === "query" ? queries[place] : keys[place]}, layer ${shown.layer}\n${strongest(side, place)}`, event, figure.getBoundingClientRect());
  });
  figure.addEventListener("pointerleave", rest);

  // The layer, head, query and key of a point in the heat maps.
  const cellAt = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(maps.getScreenCTM().inverse());
    for (let layer = 1; layer <= data.layers; layer++) {
      for (let head = 1; head <= data.heads; head++) {
        const [x, y] = grid.corners[layer - 1][head - 1];
        const query = Math.floor((point.y - y) / grid.cell), key = Math.floor((point.x - x) / grid.cell);
        if (query >= 0 && query < queries.length && key >= 0 && key < keys.length) return { layer, head, query, key };
      }
    }
    return null;
  };
  maps.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (!cell) return say("");
    const value = weight(cell.layer, cell.head, cell.query, cell.key).toFixed(2);
    say(`layer ${cell.layer}, head ${cell.head}: ${queries[cell.query]} reads ${keys[cell.key]} ${value}`, event);
  });
  maps.addEventListener("pointerleave", () => say(""));
  maps.addEventListener("click", (event) => {
    const cell = cellAt(event);
    const again = cell && shown !== whole && shown.layer === cell.layer && shown.heads[0] === cell.head;
    shown = cell && !again ? { layer: cell.layer, heads: [cell.head] } : whole;
    rest();
  });
});
