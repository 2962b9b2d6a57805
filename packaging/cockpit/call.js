// Calls of the program fettle: an argument vector goes in, one JSON document comes out.
import { cockpit, _ } from "./dom.js";

export const program = "/usr/bin/fettle";

// Failure is a call without an answer. Its lines are fettle's own message and hints, or the
// reason why fettle could not be called.
export class Failure extends Error {
    constructor(lines, exitCode) {
        super(lines[0]);
        this.lines = lines;
        this.exitCode = exitCode;
    }
}

// busy is the exit code of a call that was refused because another transaction is running.
export const busy = 75;

// read calls fettle with the rights that the session has. Without administrator rights it
// answers what every user may see.
export const read = argv => call(argv, { superuser: "try" });

// change calls fettle with administrator rights. input is its standard input.
export const change = (argv, input) => call(argv, { superuser: "require" }, input);

async function call(argv, options, input) {
    const { text, error } = await spawn([...argv, "--output", "json"], options, input);
    let document;
    try {
        document = JSON.parse(text);
    } catch {
        throw failure(text, error);
    }
    if (document.schema === "fettle/error/v1")
        throw new Failure(document.messages, document.exit_code);
    return document; // also of verify, whose exit code says that a value is not in force
}

// spawn resolves to the standard output and the error of a call, if any.
function spawn(argv, options, input) {
    return new Promise(resolve => {
        const process = cockpit.spawn([program, ...argv], { err: "message", ...options });
        process.then(text => resolve({ text }), (error, text) => resolve({ text: text || "", error }));
        if (input !== undefined)
            process.input(input);
    });
}

function failure(text, error) {
    if (!error)
        return new Failure([_("fettle's answer cannot be read"), text.slice(0, 200)]);
    switch (error.problem) {
    case "not-found":
        return new Failure([cockpit.format(_("$0 is not installed on this machine"), program)]);
    case "access-denied":
    case "authentication-failed":
    case "authentication-not-supported":
        return new Failure([_("Only an administrator can change this machine")]);
    }
    return new Failure([error.message || error.problem || String(error.exit_status)], error.exit_status);
}
