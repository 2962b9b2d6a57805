// Measurements of this machine, and their reports.
import { program, read } from "./call.js";
import { _, button, cockpit, content, dialog, h, label, lines, problem, show, table, time } from "./dom.js";

export async function showRuns(app) {
    const box = content("runs");
    let list;
    try {
        list = await read(["runs", "list"]);
    } catch (failure) {
        show(box, problem(app, failure));
        return;
    }
    const rows = list.runs.slice().reverse().map(r => [
        time(r.began), h("code", null, r.command), r.verdict || "", label(r.state === "ended" ? "ok" : "off", r.state),
        r.id && r.state === "ended" ? button("secondary", "run " + r.id, _("Report"), () => showReport(r), { "aria-label": `${_("Report")} ${time(r.began)}`, "aria-haspopup": "dialog" }) : "",
    ]);
    show(box, lines(list.headline.lines),
         rows.length > 0 && table(_("Measurements, the newest first"), [_("Began"), _("Command"), _("Verdict"), _("State"), _("Report")], rows));
}

// showReport shows the page of a run, which is a document of its own. Its scripts draw the curves;
// the sandbox keeps them away from Cockpit's session. Cockpit's web server delivers the output of
// the command: the page's own documents (srcdoc, blobs) may have no inline scripts and styles.
function showReport(run) {
    return dialog(_("Report"), async (body, footer, close) => {
        show(body, h("iframe", { sandbox: "allow-scripts", title: _("Report"), src: address(run.id, {}) }));
        show(footer, h("a", { href: address(run.id, { "content-disposition": `attachment; filename="${run.id}.html"` }), download: true }, _("Download")),
             button("secondary", "close", _("Close"), close));
    });
}

function address(id, external) {
    const channel = {
        payload: "stream", binary: "raw", host: cockpit.transport.host, superuser: "try",
        spawn: [program, "runs", "show", id, "--output", "html"],
        external: { "content-type": "text/html", ...external },
    };
    return new URL(cockpit.transport.uri("channel/" + cockpit.transport.csrf_token)).pathname + "?" + btoa(JSON.stringify(channel));
}
