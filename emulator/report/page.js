"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs"), runs = read("choices"), views = {};
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const actions = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };

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

  // the round of which the page knows the devices that is nearest to `round`
  const nearest = (rounds, round) =>
    rounds.reduce((best, _, i) => (Math.abs(rounds[i] - round) < Math.abs(rounds[best] - round) ? i : best), 0);

  const choose = () => {
    const run = document.getElementById("run"), range = document.getElementById("round");
    const said = document.getElementById("chosen"), which = document.getElementById("which");
    for (const [number, one] of runs.entries()) run.add(new Option(one.name, number));
    const show = () => {
      const one = runs[run.value], round = one.rounds[range.value];
      said.textContent = `${one.name}: round ${round}`;
      if (which) which.textContent = ` (${said.textContent})`;
      range.setAttribute("aria-valuetext", `round ${round}`);
      for (const view of [views.rounds, views.timeline])
        if (view) view.signal("run", Number(run.value)).signal("round", round).resize().runAsync();
    };
    const go = (round) => {
      const rounds = runs[run.value].rounds;
      range.max = rounds.length - 1;
      range.value = nearest(rounds, round);
      show();
    };
    run.addEventListener("change", () => go(runs[run.value].rounds[0]));
    range.addEventListener("input", show);
    views.rounds.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.round !== undefined) go(item.datum.round);
    });
    go(runs[0].rounds[0]);
  };

  Promise.all(Object.entries(specs).map(([name, spec]) => draw(name, spec))).then(() => {
    if (views.rounds) choose();
    document.documentElement.dataset.drawn = Object.keys(views).length;
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("main details:not(.vega-embed details)")) details.open = true;
  });
})();
