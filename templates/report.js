"use strict";
(function () {
  function button(text, press) {
    var made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", press);
    return made;
  }

  // What was sorted and filtered is remembered while the tab lives; without storage nothing is.
  var key = "advisor:" + location.pathname;
  var seen = {};
  try { seen = JSON.parse(sessionStorage.getItem(key)) || {}; } catch (error) { seen = {}; }

  function remember(part, what) {
    seen[part] = what;
    try { sessionStorage.setItem(key, JSON.stringify(seen)); } catch (error) { seen = {}; }
  }

  // A missing value stands last in both directions.
  function compare(a, b, sign) {
    if (a === "" || b === "") return (a === "") - (b === "");
    var x = Number(a), y = Number(b);
    return sign * (isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y);
  }

  function value(row, column) {
    var cell = row.cells[column];
    return cell.hasAttribute("data-value") ? cell.getAttribute("data-value") : cell.textContent.trim();
  }

  // Laying out thousands of rows takes a while: the first ones of a long table are shown until all are asked for.
  var AT_ONCE = 200;

  function limit(table) {
    var shown = 0;
    Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
      row.classList.toggle("later", !row.hidden && ++shown > AT_ONCE && !table.showsAll);
    });
    if (!table.more) return;
    table.more.hidden = shown <= AT_ONCE;
    table.more.textContent = table.showsAll ? "Show the first " + AT_ONCE + " rows" : "Show all " + shown + " rows";
  }

  document.querySelectorAll("table.sortable").forEach(function (table, place) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    var part = "sort" + place;
    var last = seen[part];

    function sort(column, sign) {
      heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
      heads[column].setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      var body = table.tBodies[0];
      var keyed = Array.prototype.map.call(body.rows, function (row) { return [value(row, column), row]; });
      keyed.sort(function (a, b) { return compare(a[0], b[0], sign); });
      var sorted = document.createDocumentFragment();
      keyed.forEach(function (pair) { sorted.appendChild(pair[1]); });
      body.appendChild(sorted);
      limit(table);
    }

    heads.forEach(function (head, column) {
      var text = head.textContent.trim();
      head.textContent = "";
      head.appendChild(button(text, function () {
        var sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        sort(column, sign);
        remember(part, [column, sign]);
      }));
    });
    if (table.tBodies[0].rows.length > AT_ONCE) {
      table.more = button("", function () {
        table.showsAll = !table.showsAll;
        limit(table);
      });
      table.more.className = "button";
      var holder = table.closest(".scroll") || table;
      holder.parentNode.insertBefore(table.more, holder.nextSibling);
      limit(table);
    }
    if (last && heads[last[0]]) sort(last[0], last[1]);
  });

  document.querySelectorAll("table[data-filters]").forEach(function (table, place) {
    var part = "filter" + place;
    var last = seen[part] || {};
    var rows = Array.prototype.slice.call(table.tBodies[0].rows);
    var pressed = {};
    var bar = document.createElement("div");
    bar.className = "filters";
    var live = document.createElement("span");
    live.setAttribute("aria-live", "polite");

    function show() {
      var count = 0;
      rows.forEach(function (row) {
        var keep = Object.keys(pressed).every(function (kind) {
          return pressed[kind].length === 0 || pressed[kind].indexOf(row.getAttribute("data-" + kind)) >= 0;
        });
        row.hidden = !keep;
        count += keep;
      });
      live.textContent = count + " of " + rows.length + " rows" + (count > AT_ONCE ? "" : " shown");
      limit(table);
    }

    table.getAttribute("data-filters").split(" ").forEach(function (kind) {
      var counts = {};
      rows.forEach(function (row) {
        var word = row.getAttribute("data-" + kind);
        if (word) counts[word] = (counts[word] || 0) + 1;
      });
      pressed[kind] = [];
      if (Object.keys(counts).length < 2 && kind !== "cause") return;
      Object.keys(counts).forEach(function (word) {
        var chip = button(word.replace(/_/g, " ") + " (" + counts[word] + ")", function () {
          var on = chip.getAttribute("aria-pressed") !== "true";
          chip.setAttribute("aria-pressed", String(on));
          if (on) pressed[kind].push(word);
          else pressed[kind].splice(pressed[kind].indexOf(word), 1);
          show();
          remember(part, pressed);
        });
        chip.className = "button";
        var before = (last[kind] || []).indexOf(word) >= 0;
        if (before) pressed[kind].push(word);
        chip.setAttribute("aria-pressed", String(before));
        bar.appendChild(chip);
      });
    });
    if (!bar.children.length) return;
    bar.appendChild(live);
    show();
    var holder = table.closest(".scroll") || table;
    holder.parentNode.insertBefore(bar, holder);
  });

  function select(node) {
    var range = document.createRange();
    range.selectNodeContents(node);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  document.querySelectorAll("[data-copy]").forEach(function (node) {
    var copy = button("Copy", function () {
      select(node);
      var done = function () {
        copy.textContent = "Copied";
        setTimeout(function () { copy.textContent = "Copy"; }, 1500);
      };
      if (navigator.clipboard && navigator.clipboard.writeText) {
        navigator.clipboard.writeText(node.textContent).then(done, function () { copy.textContent = "Selected"; });
      } else {
        copy.textContent = "Selected";
      }
    });
    copy.className = "button";
    copy.setAttribute("aria-label", "Copy " + node.getAttribute("data-copy"));
    node.insertAdjacentElement("afterend", copy);
  });

  window.addEventListener("afterprint", function () {
    document.querySelectorAll("table.sortable").forEach(limit);
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("tr.later").forEach(function (row) { row.classList.remove("later"); });
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
})();
