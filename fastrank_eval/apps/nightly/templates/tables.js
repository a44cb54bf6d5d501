"use strict";
(function () {
  const order = new Intl.Collator("en", { numeric: true });

  function keyOf(row, column) {
    const cell = row.cells[column];
    return "k" in cell.dataset ? cell.dataset.k : cell.textContent.trim();
  }

  // Cells without a value come last in both directions.
  function compare(a, b, sign) {
    if (a === "" || b === "") return (a === "") - (b === "");
    const x = Number(a), y = Number(b);
    return sign * (Number.isNaN(x) || Number.isNaN(y) ? order.compare(a, b) : x - y);
  }

  function sort(table, column, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row) => ({ row, key: keyOf(row, column) }));
      rows.sort((a, b) => compare(a.key, b.key, sign));
      body.append(...rows.map((one) => one.row));
    }
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!("sort" in head.dataset)) return;
      const button = document.createElement("button");
      button.type = "button";
      const words = document.createElement("span");
      words.className = "words";
      words.append(...head.childNodes);
      button.append(words);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const first = head.dataset.sort;
        const other = first === "ascending" ? "descending" : "ascending";
        const next = head.getAttribute("aria-sort") === first ? other : first;
        for (const each of heads) if (each.hasAttribute("aria-sort")) each.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", next);
        sort(table, column, next);
      });
    });
  }

  for (const form of document.querySelectorAll("form.filter[data-table]")) {
    const table = document.getElementById(form.dataset.table);
    const output = form.querySelector("output");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, name: row.cells[0].textContent.toLowerCase() }));
    function show() {
      const wanted = form.elements.text.value.trim().toLowerCase();
      const model = form.elements.model.value;
      const changed = form.elements.changed.checked;
      let shown = 0;
      for (const { row, name } of rows) {
        const fits = name.includes(wanted) && (!model || row.dataset.m === model) && (!changed || "s" in row.dataset);
        row.hidden = !fits;
        if (fits) shown += 1;
      }
      output.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
    }
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  // Print all tables of slices, but the numbers of a chart only if they are open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details.more:not([open])")];
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
})();
