// The findings of fettle check by severity, each with its reason, sources and fix.
import { read } from "./call.js";
import { _, button, cockpit, content, dialog, h, label, lines, show } from "./dom.js";
import { steps } from "./profiles.js";

// The states that are shown, the worst first.
const states = [["fail", "fail", _("Problem")], ["warn", "warn", _("Warning")], ["unknown", "off", _("Not determined")], ["reminder", "info", _("Reminder")]];

export async function showFindings(app) {
    const box = content("findings");
    if (box.childElementCount === 0)
        show(box, h("p", null, _("The machine is observed for two seconds.")));
    box.setAttribute("aria-busy", "true");
    const again = button("secondary", "check", _("Check again"), () => showFindings(app));
    try {
        const audit = await read(["check"]);
        show(box, lines(audit.headline.lines),
             states.map(([state, kind, word]) => audit.findings.filter(f => f.state === state).map(f => finding(app, f, kind, word))),
             h("div", { class: "actions" }, again));
    } catch (failure) {
        show(box, lines(failure.lines), h("div", { class: "actions" }, again));
    }
}

function finding(app, f, kind, word) {
    const name = f.id + (f.instance ? " " + f.instance : "");
    const facts = [];
    if (f.measured !== undefined && f.measured !== "")
        facts.push([_("Measured"), amount(f.measured, f.unit)]);
    if (f.want !== undefined)
        facts.push([_("Wanted"), (f.compare ? f.compare + " " : "") + amount(f.want, f.unit)]);
    if (f.at)
        facts.push([_("Read from"), f.at.join(" ")]);
    const fix = f.fix || {};
    if (fix.command)
        facts.push([_("Fix"), h("code", null, fix.command)]);
    if (fix.text)
        facts.push([_("Fix"), fix.text]);
    if (fix.artefact)
        facts.push([_("Fix"), `${fix.artefact}: ${(fix.entries || []).map(e => `${e.name}=${e.value}`).join(" ")}`]);
    return h("details", { class: "finding" },
             h("summary", { "data-key": name }, label(kind, word), " ", f.failed || f.title, " ", h("span", { class: "note" }, name)),
             f.reason && h("p", null, f.reason),
             f.ask && h("p", null, f.ask),
             h("p", null, f.why),
             h("dl", null, facts.map(([term, text]) => h("div", null, h("dt", null, term), h("dd", null, text)))),
             h("ul", { class: "note" }, f.sources.map(s => h("li", null, source(s)))),
             fix.changes?.length > 0 && app.admin.allowed && h("div", { class: "actions" },
                 button("secondary", "fix " + name, cockpit.format(_("Fix $0"), f.id), () => repair(app, f.id), { "aria-haspopup": "dialog" })));
}

const amount = (v, unit) => (Array.isArray(v) ? v.join(" ") : typeof v === "number" ? v.toLocaleString(undefined, { maximumSignificantDigits: 6 }) : String(v)) + (unit ? " " + unit : "");

function source(s) {
    const text = [s.document, s.section].filter(Boolean).join(", ") + (s.says ? ": " + s.says : "");
    return s.url?.startsWith("https://") ? h("a", { href: s.url, target: "_blank", rel: "noopener noreferrer" }, text) : text;
}

// repair shows what a fix would change, and makes it after confirmation.
function repair(app, id) {
    return dialog(cockpit.format(_("Fix $0"), id), async (body, footer, close) => {
        show(footer, button("secondary", "close", _("Cancel"), close));
        try {
            const fix = await read(["fix", id, "--dry-run"]);
            show(body, lines((fix.plan || fix).headline.lines), steps(fix.plan || {}),
                 fix.by_hand?.length > 0 && h("ul", null, fix.by_hand.map(b => h("li", null, `${b.title}: `, h("code", null, b.command || b.text || "")))),
                 lines(fix.messages));
            show(footer, button("primary", "apply", _("Fix"), async () => {
                close();
                if (await app.act(["fix", id, "--yes"]))
                    await showFindings(app);
            }), button("secondary", "close", _("Cancel"), close));
        } catch (failure) {
            show(body, lines(failure.lines));
        }
    });
}
