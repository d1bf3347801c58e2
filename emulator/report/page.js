"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs"), runs = read("choices"), views = {};
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const actions = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };

  // Commands name the results' folder as ".", so that the page's bytes do not depend on where it is.
  const { protocol, pathname } = location;
  const beside = protocol === "file:" ? decodeURIComponent(pathname).replace(/[^/]*$/, "").replace(/(.)\/$/, "$1") : ".";
  const folder = document.documentElement.dataset.folder ?? beside;
  const quoted = /^[\w@%+=:,./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", `'"'"'`)}'`;
  for (const code of document.querySelectorAll(".verdict code, #about dd code"))
    code.textContent = code.textContent.replace(/^(fedlapse .*?) \.(?=[/ ]|$)/, (_, before) => `${before} ${quoted}`);

  const draw = async (name, spec) => {
    spec.config.legend.columns = narrow ? 2 : 5;
    if (narrow) {
      spec.config.legend.labelLimit = 130;
      spec.config.legend.layout = { bottom: { anchor: "start", direction: "vertical" } };
      spec.config.axis.labelLimit = 96;
    }
    const options = { renderer: "svg", actions, downloadFileName: name };
    views[name] = (await vegaEmbed("#chart-" + name, spec, options)).view;
  };

  // the number among `rounds` of the one that is nearest to `round`
  const nearest = (rounds, round) =>
    rounds.reduce((best, _, i) => (Math.abs(rounds[i] - round) < Math.abs(rounds[best] - round) ? i : best), 0);

  const choose = () => {
    const run = document.getElementById("run"), range = document.getElementById("round");
    const said = document.getElementById("chosen"), which = document.querySelectorAll(".which");
    for (const [number, one] of runs.entries()) run.add(new Option(one.name, number));
    const show = () => {  // place 0 of the slider is all rounds
      const one = runs[run.value], at = range.value - 1, round = at < 0 ? 0 : one.rounds[at];
      const shown = round ? `round ${round}` : "all rounds";
      said.textContent = `${one.name}: ${shown}`;
      for (const place of which) place.textContent = `, ${one.name}`;
      range.setAttribute("aria-valuetext", shown);
      for (const name of ["rounds", "timeline", "rates"]) {
        const view = views[name];
        if (!view) continue;
        view.signal("run", Number(run.value));
        if (name === "rounds") view.signal("round", round);
        if (name === "timeline") view.signal("zoom_start", round ? one.spans[at] : null);
        view.resize().runAsync();
      }
    };
    const go = (place) => {
      range.max = runs[run.value].rounds.length;
      range.value = place;
      show();
    };
    run.addEventListener("change", () => go(0));
    range.addEventListener("input", show);
    views.rounds.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.round !== undefined) go(1 + nearest(runs[run.value].rounds, item.datum.round));
    });
    go(0);
  };

  // tables that are wider than the screen say so
  const wide = new ResizeObserver((all) => {
    for (const { target } of all) target.classList.toggle("more", target.scrollWidth > target.clientWidth + 1);
  });
  for (const one of document.querySelectorAll(".scroll")) wide.observe(one);

  Promise.all(Object.entries(specs).map(([name, spec]) => draw(name, spec))).then(() => {
    if (views.rounds) choose();
    document.documentElement.dataset.drawn = Object.keys(views).length;
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("main details:not(.vega-embed details, .scenario)")) details.open = true;
  });
})();
