"use strict";
(() => {
  const tip = document.getElementById("tip");
  const charts = [...document.querySelectorAll("svg.chart")];
  let at = null;

  function point(chart, x) {
    // the same time in every chart, for they share the axis
    for (const other of charts) {
      const line = other.querySelector(".cursor");
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      line.setAttribute("visibility", chart ? "visible" : "hidden");
    }
  }

  function show(bar, left, top) {
    if (at) at.classList.remove("at");
    at = bar;
    tip.hidden = !bar;
    if (!bar) return;
    bar.classList.add("at");
    tip.textContent = bar.dataset.tip;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = Math.max(0, Math.min(left + 14, innerWidth - width - 8)) + "px";
    tip.style.top = Math.max(0, top + 16 + height > innerHeight ? top - height - 10 : top + 16) + "px";
  }

  function hide() {
    show(null);
    point(null, 0);
  }

  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest && event.target.closest("svg.chart");
    if (!chart) return hide();
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    point(chart, place.x);
    show(event.target.closest("[data-tip]"), event.clientX, event.clientY);
  });
  document.addEventListener("pointerleave", hide);

  for (const chart of charts) {
    const bars = [...chart.querySelectorAll("[data-tip]")];
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !bars.length) return;
      event.preventDefault();
      const next = bars[(bars.indexOf(at) + step + bars.length) % bars.length];
      const box = next.getBoundingClientRect();
      point(chart, Number(next.getAttribute("x")));
      show(next, box.left, box.bottom);
    });
  }
})();
