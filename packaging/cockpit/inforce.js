// What is in force and why: the values of the active profiles, and what sets one of them.
import { read } from "./call.js";
import { _, button, cockpit, content, dialog, h, label, lines, place, problem, show, table, time, value } from "./dom.js";

// The kind of label of each verdict of fettle verify, and the word that is shown.
const verdicts = {
    ok: ["ok", _("In force")], drifted: ["fail", _("Changed since")], differs: ["fail", _("Differs")], rejected: ["fail", _("Rejected")],
    overridden: ["info", _("Overridden")], kept: ["info", _("Kept")], refused: ["info", _("Refused")], dynamic: ["info", _("Follows the load")],
    deferred: ["info", _("Known when applied")],
    "needs-reboot": ["warn", _("Needs a reboot")], "needs-restart": ["warn", _("Needs a restart")], "needs-daemon": ["warn", _("Needs the daemon")],
    unsupported: ["off", _("Not applicable")], unknown: ["warn", _("Unknown")],
};

// verdict is the label of a verdict.
export const verdict = word => label(...(verdicts[word] || ["warn", word]));

// settingName is a setting as a person writes it: sysctl:vm.swappiness is vm.swappiness.
export const settingName = setting => setting.replace(/^(sysctl|sysfs):/, "");

export async function showInForce(app) {
    const box = content("in-force"), { status, failure } = app;
    if (failure) {
        show(box, problem(app, failure));
        return;
    }
    const parts = [lines(status.headline.lines)];
    if (status.profiles.length > 0) {
        parts.push(h("p", null, status.persistent
            ? _("The next boot applies it again.")
            : cockpit.format(_("The next boot does not apply it; this does: $0"), "fettle tune --persist " + status.profiles.join(" "))));
    }
    if (status.profiles.length > 0 || status.asked?.length > 0) {
        try {
            parts.push(...values(await read(["verify"])));
        } catch (error) {
            parts.push(lines(error.lines));
        }
    }
    const buttons = [];
    if (status.profiles.length > 0)
        buttons.push(button("secondary", "verify", _("Verify now"), () => app.refresh(true)));
    if (status.live.length > 0 && app.admin.allowed)
        buttons.push(button("secondary", "undo-all", _("Undo everything"), () => app.undo([])));
    show(box, ...parts, buttons.length > 0 && h("div", { class: "actions" }, buttons));
}

// values are the result of fettle verify: first what is not in force.
function values(verify) {
    const groups = { attention: [], "in force": [], other: [] };
    for (const v of verify.values) {
        const kind = verdicts[v.verdict]?.[0];
        groups[v.verdict === "ok" ? "in force" : kind === "fail" || kind === "warn" ? "attention" : "other"].push(v);
    }
    const tableOf = (caption, list) => table(caption, [_("Setting"), _("Now"), _("Wanted"), _("State"), _("Set by")], list.map(v => [
        button("link", "why " + v.setting, settingName(v.setting), () => why(v.setting), { "aria-haspopup": "dialog" }),
        value(v.now), value(v.want), [verdict(v.verdict), v.why ? h("p", { class: "note" }, v.why) : ""], place(v.reason),
    ]));
    const folded = (summary, list) => list.length > 0 && h("details", null, h("summary", { "data-key": summary }, `${summary} (${list.length})`), tableOf(summary, list));
    return [
        h("p", { id: "verified" }, verify.headline.lines[0]),
        groups.attention.length > 0 && tableOf(_("Values that are not in force"), groups.attention),
        folded(_("Values in force"), groups["in force"]),
        folded(_("Values left alone"), groups.other),
    ];
}

// why shows what sets a value, and which source wins.
function why(setting) {
    return dialog(settingName(setting), async (body, footer, close) => {
        show(footer, button("secondary", "close", _("Close"), close));
        try {
            const answer = await read(["why", setting]);
            show(body, lines(answer.headline.lines),
                 answer.claims.length > 0 && table(_("Lines that set it, the last one wins"), [_("Value"), _("Where"), _("When")],
                                                   answer.claims.map(c => [value(c.value), place(c), c.void || c.when])),
                 answer.changes.length > 0 && table(_("Changes by fettle"), [_("Transaction"), _("Time"), _("Who"), _("Before"), _("Wanted"), _("Where")],
                                                    answer.changes.map(c => [String(c.transaction), time(c.time), c.user, value(c.before), value(c.wanted), c.from])),
                 answer.last_writer && h("p", null, cockpit.format(_("Last written by $0 (process $1) at $2"), answer.last_writer.process, answer.last_writer.pid, time(answer.last_writer.time))),
                 answer.last_writer_unknown && h("p", { class: "note" }, answer.last_writer_unknown));
        } catch (failure) {
            show(body, lines(failure.lines));
        }
    });
}
