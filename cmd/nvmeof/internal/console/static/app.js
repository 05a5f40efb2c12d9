"use strict";
// What pages do besides what htmx does by attributes: live charts, and copying. Everything else works without it.
(() => {
  const rows = 120;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const rate = (n) => (n >= 1e6 ? (n / 1e6).toFixed(2) + "M" : n > 0 && n < 9.95 ? n.toFixed(1) : n.toFixed(0));

  const took = (s) => {
    for (const [unit, name] of [[1e-6, "µs"], [1e-3, "ms"]]) {
      if (s / unit < 999.5) return (s / unit).toPrecision(3) + name;
    }
    return s.toPrecision(3) + "s";
  };

  const axis = (more) => ({ stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, ...more });

  // plot makes a chart in an element, as wide as that is.
  const plot = (into, options, data) => {
    const size = () => ({ width: Math.max(into.clientWidth, 120), height: 200 });
    const chart = new uPlot({ ...size(), cursor: { y: false }, ...options }, data, into);
    new ResizeObserver(() => chart.setSize(size())).observe(into);
    return chart;
  };

  const overTime = (into, names, colors) => plot(into, {
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
    axes: [axis({ space: 70 }), axis({ size: 56, values: (_, all) => all.map(rate) })],
    series: [{}, ...names.map((label, i) => ({ label, stroke: color(colors[i]), width: 2, points: { show: false }, value: (_, v) => v == null ? "–" : rate(v) }))],
  }, [[], ...names.map(() => [])]);

  const histogram = (into) => plot(into, {
    scales: { x: { time: false, distr: 3 }, y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
    axes: [axis({ values: (_, all) => all.map((v) => (v == null || !/^[1]/.test(v.toExponential()) ? "" : took(v))), space: 30 }), axis({ size: 56, values: (_, all) => all.map(rate) })],
    series: [{ label: "up to", value: (_, v) => v == null ? "–" : took(v) }, { label: "commands", stroke: color("--accent"), fill: color("--accent") + "44", width: 2, points: { show: false }, paths: uPlot.paths.stepped({ align: -1 }), value: (_, v) => v == null ? "–" : rate(v) }],
  }, [[1e-5, 1e-4], [0, 0]]);

  const live = (tiles) => {
    const show = (name, text) => { const at = tiles.querySelector(`[data-show="${name}"]`); if (at) at.textContent = text; };
    const chart = (name) => document.querySelector(`[data-chart="${name}"]`);
    let charts, data, last = 0;
    const begin = () => {
      for (const name of ["iops", "bytes", "latency"]) chart(name).replaceChildren();
      data = data || { t: [], iops: [], read: [], written: [] };
      charts = { iops: overTime(chart("iops"), ["commands"], ["--accent"]), bytes: overTime(chart("bytes"), ["read", "written"], ["--accent", "--warn"]), latency: histogram(chart("latency")) };
    };
    begin();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", begin);
    const draw = (x) => {
      data.t.push(Date.now() / 1000); data.iops.push(x.iops); data.read.push(x.read / 1e6); data.written.push(x.written / 1e6);
      for (const list of Object.values(data)) if (list.length > rows) list.shift();
      charts.iops.setData([data.t, data.iops]);
      charts.bytes.setData([data.t, data.read, data.written]);
      if (x.buckets.length) charts.latency.setData([x.buckets.map((b) => b[0] / 1e9), x.buckets.map((b) => b[1])]);
      show("iops", rate(x.iops)); show("read", (x.read / 1e6).toFixed(1)); show("written", (x.written / 1e6).toFixed(1));
      show("p50", x.p50 ? took(x.p50) : "–"); show("p99", x.p99 ? took(x.p99) : "–"); show("inFlight", x.inFlight); show("errors", rate(x.errors));
    };
    const again = async () => {
      try {
        if (!document.hidden) {
          const answer = await fetch(tiles.dataset.live, { headers: { "HX-Request": "true" } });
          if (answer.status === 401) { location.assign("/login"); return; }
          const x = await answer.json();
          if (answer.ok && x.uptime !== last) { last = x.uptime; draw(x); }
        }
      } catch { /* the target is away: the next time tells */ }
      setTimeout(again, 1000);
    };
    again();
  };

  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch { // without TLS browsers give no clipboard to others than localhost
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
  });

  const tiles = document.querySelector("[data-live]");
  if (tiles) live(tiles);
})();
