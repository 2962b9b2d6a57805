// The page: what is in force, what could change, what was found and measured. All data come from
// fettle ... --output json; every change is a call of fettle with administrator rights, which
// keeps the journal. The page itself keeps nothing, so it may be closed at any time.
import { busy, change, read } from "./call.js";
import { _, alert, button, cockpit, h, lines, show } from "./dom.js";
import { showFindings } from "./findings.js";
import { showHistory, undo } from "./history.js";
import { showInForce } from "./inforce.js";
import { showProfiles } from "./profiles.js";
import { showRuns } from "./runs.js";

const pollSeconds = 5, pollTrialSeconds = 2;

const app = {
    admin: cockpit.permission({ admin: true }),
    status: null, // of fettle status, or null if failure is set
    failure: null,
    act,
    refresh,
};

// act changes the machine, reports the result and shows what is in force now. It returns fettle's
// answer, or null if nothing was done.
async function act(argv, input) {
    let answer = null;
    notify();
    try {
        answer = await change(argv, input);
        notify(answer.exit_code === 0 ? "ok" : "warn", answer.headline.lines, answer.exit_code === 0 ? [] : answer.messages);
    } catch (failure) {
        notify("fail", failure.lines, failure.exitCode === busy ? [_("Another tab or another administrator is changing this machine")] : []);
    }
    await refresh(true);
    return answer;
}

// notify shows a message until the next one, or none.
function notify(kind, [title, ...rest] = [""], more = []) {
    const dismiss = button("secondary", "dismiss", _("Dismiss"), () => notify());
    show(document.getElementById("notice"), kind && alert(kind, title.replace(/^[✓✗!] /, ""), lines([...rest, ...more]), dismiss));
}

// The trial in force: its end by the browser's monotonic clock, as the clocks of browser and
// machine may differ.
let trialEnd = 0;

function showStanding() {
    const trial = app.status?.trials?.find(t => !t.experiment);
    trialEnd = trial?.remaining_s ? performance.now() + trial.remaining_s * 1000 : 0;
    show(document.getElementById("standing"),
         app.admin.allowed === false && alert("info", _("Limited access"), h("p", null,
             _("Only an administrator sees what fettle changed, and can change this machine. Turn on administrative access at the top of Cockpit."))),
         app.status?.tuners?.map(t => alert("warn", cockpit.format(_("$0 tunes this machine too"), t.name),
                                            h("p", null, cockpit.format(_("It sets $0. To stop it: $1"), t.sets, t.hand_over)))),
         trial && showTrial(trial));
    tick();
}

function showTrial(trial) {
    const body = trial.overdue
        ? h("p", null, _("Its time is over, but it was not undone: its watchdog has ended. Undo it now."))
        : h("p", null, _("Unless you keep the changes, they are undone in "), h("span", { id: "countdown", role: "timer" }), ".");
    return alert("warn", cockpit.format(_("Transaction $0 is on trial"), trial.transaction), body,
                 !trial.overdue && button("primary", "keep", _("Keep the changes"), () => act(["confirm"])),
                 button("secondary", "undo-trial", _("Undo now"), () => act(["undo", trial.transaction])));
}

// showLost says that what is shown may be old: it stays. A trial does not need the connection.
let lost = false;
function showLost() {
    lost = true;
    document.getElementById("standing").prepend(alert("fail", _("The connection to the machine is lost"),
        trialEnd > 0 && h("p", null, _("The trial goes on. The machine undoes it by itself, unless you connect again and keep the changes.")),
        button("primary", "connect", _("Connect again"), () => location.reload())));
}

// tick writes the remaining time of a trial.
function tick() {
    const countdown = document.getElementById("countdown");
    if (!countdown || trialEnd === 0)
        return;
    const left = Math.max(0, Math.ceil((trialEnd - performance.now()) / 1000));
    countdown.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

// refresh reads the status; what depends on it is read only if it has changed, also by another
// tab, another administrator, or the end of a trial.
let last = "";
async function refresh(always) {
    try {
        app.status = await read(["status"]);
        app.failure = null;
    } catch (failure) {
        if (lost)
            return; // a call that the connection has taken with it
        app.status = null;
        app.failure = failure;
    }
    showStanding();
    const now = JSON.stringify([app.status, app.failure?.lines, app.admin.allowed], (key, value) => key === "remaining_s" ? undefined : value);
    if (now === last && !always)
        return;
    last = now;
    await Promise.all([showInForce(app), showProfiles(app), showHistory(app)]);
}

async function poll() {
    if (!cockpit.hidden)
        await refresh();
    setTimeout(poll, (trialEnd ? pollTrialSeconds : pollSeconds) * 1000);
}

// Cockpit's choice of light or dark colors; "auto" is the browser's.
function colors() {
    const style = localStorage.getItem("shell:style") || "auto";
    const dark = style === "dark" || (style === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.classList.toggle("dark", dark);
}

colors();
window.addEventListener("storage", colors);
window.addEventListener("cockpit-style", colors);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colors);
cockpit.translate();
document.documentElement.lang = cockpit.language.replace("_", "-");
// This channel closes with the connection. A call that begins after that never gets an answer.
cockpit.channel({ payload: "null" }).addEventListener("close", showLost);
app.undo = ids => undo(app, ids);
app.admin.addEventListener("changed", () => refresh(true));
setInterval(tick, 1000);
await poll();
await Promise.all([showFindings(app), showRuns(app)]);
