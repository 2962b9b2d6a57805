// Choose a profile, look at what it would change, and try it.
import { read } from "./call.js";
import { _, button, cockpit, content, dialog, h, lines, place, show, table, value } from "./dom.js";
import { settingName, verdict } from "./inforce.js";

const trials = [["60s", _("1 minute")], ["5m", _("5 minutes")], ["15m", _("15 minutes")], ["1h", _("1 hour")]];

export async function showProfiles(app) {
    const box = content("profiles");
    let list, recommended;
    try {
        list = (await read(["list", "profiles"])).profiles;
        recommended = await read(["recommend"]).catch(() => null);
    } catch (failure) {
        show(box, lines(failure.lines));
        return;
    }
    const before = box.querySelector("select")?.value;
    const select = h("select", { id: "profile", "data-key": "profile" }, list.map(p => h("option", { value: p.name },
        p.name + (p.name === recommended?.profile ? " – " + _("recommended") : "") + (p.active ? " – " + _("in force") : ""))));
    select.value = before || recommended?.profile || list.find(p => p.active)?.name || list[0]?.name;
    const summary = h("p", { id: "profile-summary" });
    const describe = () => { summary.textContent = list.find(p => p.name === select.value)?.summary || ""; };
    select.addEventListener("change", describe);
    describe();
    show(box,
         recommended && lines(recommended.headline.lines),
         h("div", { class: "field" }, h("label", { for: "profile" }, _("Profile")), select),
         summary,
         h("div", { class: "actions" }, button("primary", "diff", _("Show changes"), () => diff(app, select.value), { "aria-haspopup": "dialog" })));
}

// diff shows what a profile would change. A trial applies exactly this plan: fettle refuses it if
// another program or another tab has changed one of its settings since.
function diff(app, profile) {
    return dialog(cockpit.format(_("Changes of $0"), profile), async (body, footer, close) => {
        show(footer, button("secondary", "close", _("Cancel"), close));
        let plan;
        try {
            plan = await read(["diff", profile]);
        } catch (failure) {
            show(body, lines(failure.lines));
            return;
        }
        show(body, lines(plan.headline.lines), steps(plan), problems(plan));
        if (!app.admin.allowed) {
            show(footer, h("p", null, _("Only an administrator can try this profile.")), button("secondary", "close", _("Close"), close));
            return;
        }
        const time = h("select", { id: "trial-time" }, trials.map(([v, text]) => h("option", { value: v }, text)));
        show(footer,
             h("div", { class: "field" }, h("label", { for: "trial-time" }, _("Undo without confirmation after")), time),
             button("primary", "try", _("Try"), () => {
                 close();
                 return app.act(["tune", "--plan", "-", "--try", time.value], JSON.stringify(plan));
             }),
             button("secondary", "close", _("Cancel"), close));
    });
}

// steps lists the steps of a plan: first what is written.
export function steps(plan) {
    const list = plan.steps || [], written = list.filter(s => s.action === "write" || s.action === "release"), rest = list.filter(s => !written.includes(s));
    const summary = cockpit.format(_("Values that stay ($0)"), rest.length);
    return [
        written.length > 0 && table(_("Values that change"), [_("Setting"), _("Now"), _("After"), _("Set by")],
                                    written.map(s => [settingName(s.setting), value(s.before), value(s.want), place(s.reason)])),
        rest.length > 0 && h("details", null, h("summary", null, summary), table(summary, [_("Setting"), _("Now"), _("State"), _("Set by")],
            rest.map(s => [settingName(s.setting), value(s.before), [verdict(s.verdict), s.why ? h("p", { class: "note" }, s.why) : ""], place(s.reason)]))),
    ];
}

const problems = plan => plan.problems?.length > 0 && h("div", null, h("h3", null, _("Warnings")),
                                                        h("ul", null, plan.problems.map(p => h("li", null, p.text, " ", h("span", { class: "note" }, place(p.pos))))));
