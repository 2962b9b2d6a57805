// What fettle changed, and undo.
import { read } from "./call.js";
import { _, button, cockpit, content, dialog, h, label, lines, problem, show, table, time, value } from "./dom.js";
import { settingName } from "./inforce.js";

const newest = 10; // transactions that are not folded

export async function showHistory(app) {
    const box = content("history");
    let history;
    try {
        history = await read(["history"]);
    } catch (failure) {
        show(box, problem(app, failure));
        return;
    }
    const rows = history.transactions.slice().reverse().map(t => [
        String(t.transaction), time(t.time), t.user, [t.profiles?.join(" ") || "", h("p", { class: "note" }, t.reason), t.note ? h("p", { class: "note" }, t.note) : ""], String(t.changed), result(t),
        t.live && app.admin.allowed ? button("secondary", "undo " + t.transaction, cockpit.format(_("Undo $0"), t.transaction), () => app.undo([t.transaction]), { "aria-haspopup": "dialog" }) : "",
    ]);
    const tableOf = (caption, some) => table(caption, [_("Transaction"), _("Time"), _("Who"), _("What"), _("Values changed"), _("Result"), _("Undo")], some);
    const older = cockpit.format(_("Older transactions ($0)"), rows.length - newest);
    show(box, lines(history.headline.lines),
         rows.length > 0 && tableOf(_("Transactions, the newest first"), rows.slice(0, newest)),
         rows.length > newest && h("details", null, h("summary", { "data-key": "older" }, older), tableOf(older, rows.slice(newest))));
}

function result(t) {
    if (t.undone_by)
        return label("off", cockpit.format(_("Undone by $0"), t.undone_by));
    if (t.superseded_by)
        return label("off", cockpit.format(_("Merged into $0"), t.superseded_by));
    if (t.result !== "done")
        return label("warn", t.result);
    return t.live ? label("ok", _("In force")) : label("off", _("Done"));
}

// undo shows which values would be restored, and restores them after confirmation. No ids means
// everything since before fettle's first change.
export function undo(app, ids) {
    const title = ids.length > 0 ? cockpit.format(_("Undo transaction $0"), ids.join(" ")) : _("Undo everything");
    return dialog(title, async (body, footer, close) => {
        show(footer, button("secondary", "close", _("Cancel"), close));
        try {
            const plan = await read(["undo", ...ids, "--dry-run"]);
            const values = plan.values.filter(v => !v.side_effect);
            show(body, lines(plan.headline.lines),
                 values.length > 0 && table(_("Values that are restored"), [_("Setting"), _("Now"), _("After"), _("Note")],
                                            values.map(v => [settingName(v.setting), value(v.found), value(v.to), v.why || ""])));
            show(footer, button("danger", "apply", _("Undo"), () => { close(); return app.act(["undo", ...ids]); }),
                 button("secondary", "close", _("Cancel"), close));
        } catch (failure) {
            show(body, lines(failure.lines));
        }
    });
}
