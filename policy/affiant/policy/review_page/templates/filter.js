// The filter of the table. Everything is readable without it.
"use strict";
{
  const panel = document.getElementById("filter");
  const tables = [...document.querySelectorAll("table.matrix")];
  const field = (id) => document.getElementById(id);
  const holds = (cell, wanted) => cell.textContent.toLowerCase().includes(wanted);
  const wantedIn = (id) => field(id).value.trim().toLowerCase();
  const apply = () => {
    const row = wantedIn("find-row"), agent = wantedIn("find-agent");
    let rows = 0, allRows = 0, agents = 0, allAgents = 0;
    for (const table of tables) {
      const heads = [...table.tHead.rows[0].cells];
      const shown = heads.map((cell, at) => at === 0 || holds(cell, agent));
      allAgents += heads.length - 1;
      agents += shown.filter(Boolean).length - 1;
      heads.forEach((cell, at) => { cell.hidden = !shown[at]; });
      for (const body of table.tBodies) {
        let left = 0;
        for (const each of [...body.rows].slice(1)) {
          each.hidden = !holds(each.cells[0], row);
          [...each.cells].forEach((cell, at) => { cell.hidden = !shown[at]; });
          allRows += 1;
          left += each.hidden ? 0 : 1;
        }
        rows += left;
        body.hidden = left === 0;
      }
      table.closest(".wide").hidden = shown.filter(Boolean).length === 1;
    }
    field("found").textContent = row || agent
      ? `Filtered: ${rows} of ${allRows} rows, ${agents} of ${allAgents} agents` : "";
  };
  if (panel) {
    panel.hidden = false;
    panel.addEventListener("input", apply);
    apply();
  }
}
