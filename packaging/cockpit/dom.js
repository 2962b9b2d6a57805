// Elements of the page: a few lines of DOM instead of a framework.
export const cockpit = window.cockpit;
export const _ = cockpit.gettext;

// h makes an element. Attributes beginning with "on" are event listeners; null and false
// attributes and children are left out.
export function h(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith("on"))
            e.addEventListener(name.slice(2), value);
        else if (value === true)
            e.setAttribute(name, "");
        else if (value !== null && value !== undefined && value !== false)
            e.setAttribute(name, value);
    }
    e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
    return e;
}

// show replaces what an element contains. The keyboard's focus stays on the element with the
// same data-key, or goes to the heading of the section.
export function show(element, ...children) {
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    element.replaceChildren(...children.flat(Infinity).filter(Boolean));
    element.removeAttribute("aria-busy");
    if (focused)
        focusOn(focused.dataset.key, element);
}

// focusOn returns the keyboard's focus to the element with a key, if its section was made again.
function focusOn(key, element) {
    const same = key && document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    (same || element.closest("section, dialog")?.querySelector("h2") || document.querySelector("h1")).focus();
}

export const content = id => document.querySelector(`#${id} > .content`);

// button calls an asynchronous action and ignores clicks meanwhile. It is not disabled, as it
// would lose the keyboard's focus. kind is primary, secondary, danger or link; key keeps the focus
// (see show).
export function button(kind, key, text, action, attributes) {
    const b = h("button", { type: "button", class: kind, "data-key": key, ...attributes }, text);
    b.addEventListener("click", async () => {
        if (b.hasAttribute("aria-disabled"))
            return;
        b.setAttribute("aria-disabled", "true");
        try {
            await action();
        } finally {
            b.removeAttribute("aria-disabled");
        }
    });
    return b;
}

// table makes a table that becomes a list of cards on a narrow screen. A row is a list of cells.
export function table(caption, heads, rows) {
    return h("table", null,
             h("caption", { class: "hidden" }, caption),
             h("thead", null, h("tr", null, heads.map(text => h("th", { scope: "col" }, text)))),
             h("tbody", null, rows.map(cells => h("tr", null, cells.map((cell, i) =>
                 h("td", { "data-label": heads[i] }, h("div", null, cell)))))));
}

// label is a word with a symbol and a color: ok, info, warn, fail or off.
const symbols = { ok: "✓", info: "i", warn: "!", fail: "✗", off: "–" };
export const label = (kind, text) => h("span", { class: "label " + kind },
                                       h("span", { "aria-hidden": "true" }, symbols[kind]), text);

// lines shows sentences of fettle. Its options mean nothing here: the page has the details.
export const lines = (list, kind) => list.map(line => h("p", { class: kind }, line.replaceAll(" (--details)", "")));

// problem is what is shown instead of an answer: without administrator rights, many answers need
// them.
export const problem = (app, failure) => app.admin.allowed === false
    ? [h("p", null, _("Only an administrator can see this.")), lines(failure.lines, "note")]
    : lines(failure.lines);

// alert is a message with actions. Its kind is that of label.
export function alert(kind, title, body, ...actions) {
    return h("div", { class: "alert " + kind, role: "group", "aria-label": title },
             h("p", { class: "title" }, h("span", { "aria-hidden": "true" }, symbols[kind] + " "), title),
             body, actions.length > 0 && h("div", { class: "actions" }, actions));
}

// dialog opens a modal dialog and resolves when it is closed. fill gets its body and its footer
// and a function that closes it; the browser keeps the keyboard inside, and Escape closes.
export function dialog(title, fill) {
    return new Promise(resolve => {
        const body = h("div", { class: "body", tabindex: "0", role: "region", "aria-labelledby": "dialog-title", "aria-busy": "true" });
        const footer = h("footer");
        const box = h("dialog", { "aria-labelledby": "dialog-title", tabindex: "-1" },
                      h("h2", { id: "dialog-title", tabindex: "-1" }, title), body, footer);
        const close = () => box.close();
        const opener = document.activeElement;
        box.addEventListener("close", () => {
            box.remove();
            if (!opener.isConnected)
                focusOn(opener.dataset.key, document.getElementById("page"));
            resolve();
        });
        document.body.append(box);
        box.showModal();
        box.focus();
        fill(body, footer, close);
    });
}

// value is what a setting holds: text, absent (null), or bytes that are not text.
export function value(v) {
    if (v === undefined)
        return _("unknown");
    if (v === null)
        return _("absent");
    return typeof v === "string" ? v : _("binary data");
}

// place is where a value comes from: the line of a file, a rule, or the command.
export function place(reason) {
    if (reason?.file)
        return reason.line ? `${reason.file}:${reason.line}` : reason.file;
    return reason?.rule || reason?.text || "";
}

// time is a point in time in the words of the browser's language.
export const time = text => new Date(text).toLocaleString(cockpit.language.replace("_", "-"),
                                                          { dateStyle: "medium", timeStyle: "medium" });
