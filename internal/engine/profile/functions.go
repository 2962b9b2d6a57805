package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Functions lists the built-in functions of TuneD 2.28. TuneD 2.20 has those without Since.
var Functions = []Function{
	{Name: "assertion", Args: "MESSAGE:A:B", Doc: "ends the load with the message unless A and B are the same text", MinArgs: 3, MaxArgs: 3, Call: assertion},
	{Name: "assertion_non_equal", Args: "MESSAGE:A:B", Doc: "ends the load with the message if A and B are the same text", MinArgs: 3, MaxArgs: 3, Call: assertionNonEqual},
	{Name: "calc_isolated_cores", Args: "[N]", Doc: "all CPUs except the first N (default 1) of each socket", MaxArgs: 1, Call: calcIsolatedCores},
	{Name: "check_net_queue_count", Args: "N", Doc: "N if it is a number, else the number of CPUs that programs may run on", MinArgs: 1, MaxArgs: 1, Call: checkNetQueueCount},
	{Name: "cpuinfo_check", Args: "RE:TEXT...[:ELSE]", Doc: "the text that belongs to the first regular expression found in /proc/cpuinfo", MinArgs: 2, Call: cpuinfoCheck},
	{Name: "cpulist2devs", Args: "LIST...", Doc: "the CPUs as device names, `cpu0,cpu1`", Call: cpulist2devs},
	{Name: "cpulist2hex", Args: "LIST...", Doc: "the CPUs as a mask in groups of eight digits", Call: cpulist2hex},
	{Name: "cpulist2hex_invert", Args: "LIST...", Doc: "the mask of the online CPUs that are not in the lists", Call: cpulist2hexInvert},
	{Name: "cpulist_invert", Args: "LIST...", Doc: "the online CPUs that are not in the lists", Call: cpulistInvert},
	{Name: "cpulist_online", Args: "LIST...", Doc: "the CPUs of the lists that are online", Call: cpulistOnline},
	{Name: "cpulist_pack", Args: "LIST...", Doc: "the shortest list, `0-2`", Call: cpulistPack},
	{Name: "cpulist_present", Args: "LIST...", Doc: "the CPUs of the lists that are present", Call: cpulistPresent},
	{Name: "cpulist_unpack", Args: "LIST...", Doc: "all CPUs, separated by commas, `0,1,2`", Call: cpulistUnpack},
	{Name: "exec", Args: "PROGRAM:ARGUMENT...", Doc: "the output of the program, including the last line end", MinArgs: 1, Executes: true, Call: execProgram},
	{Name: "hex2cpulist", Args: "MASK", Doc: "the CPUs of a mask, with or without 0x", MinArgs: 1, MaxArgs: 1, Call: hex2cpulist},
	{Name: "intel_recommended_pstate", Since: "2.21", Args: "", Doc: "the mode for intel_pstate: `active` since Ice Lake, else `disable`", Call: intelRecommendedPstate},
	{Name: "kb2s", Args: "N", Doc: "KiB in sectors of 512 bytes", MinArgs: 1, MaxArgs: 1, Call: kb2s},
	{Name: "log", Since: "2.21", Args: "TEXT...", Doc: "its arguments joined; also logs them", MinArgs: 1, Call: logMessage},
	{Name: "lscpu_check", Since: "2.21", Args: "RE:TEXT...[:ELSE]", Doc: "the text that belongs to the first regular expression found in the output of lscpu", MinArgs: 2, Executes: true, Fixed: true, Call: lscpuCheck},
	{Name: "package2cpus", Since: "2.21", Args: "PACKAGE...", Doc: "the CPUs of packages, named by numbers or globs, as device names", Call: package2cpus},
	{Name: "package2uncores", Since: "2.21", Args: "PACKAGE...", Doc: "the uncore devices of packages", Call: package2uncores},
	{Name: "regex_search_ternary", Args: "TEXT:RE:YES:NO", Doc: "YES if the regular expression is found in the text, else NO", MinArgs: 4, MaxArgs: 4, Call: regexSearchTernary},
	{Name: "s2kb", Args: "N", Doc: "sectors of 512 bytes in KiB", MinArgs: 1, MaxArgs: 1, Call: s2kb},
	{Name: "strip", Args: "TEXT...", Doc: "its arguments joined, without white space at the ends", MinArgs: 1, Call: stripText},
	{Name: "virt_check", Args: "VM:METAL", Doc: "VM if virt-what names a hypervisor, else METAL", MinArgs: 2, MaxArgs: 2, Executes: true, Fixed: true, Call: virtCheck},
}

// accepts reports whether the function can be called with n arguments.
func (f Function) accepts(n int) bool {
	return n >= f.MinArgs && (f.MaxArgs == 0 || n <= f.MaxArgs)
}

// assertion:MESSAGE:A:B ends the load with an error if A differs from B.
func assertion(_ context.Context, _ *Env, args []string) (string, bool, error) {
	if args[1] != args[2] {
		return "", false, fmt.Errorf("assertion failed: %s (%q is not %q)", args[0], args[1], args[2])
	}
	return "", false, nil
}

// assertion_non_equal:MESSAGE:A:B ends the load with an error if A equals B.
func assertionNonEqual(_ context.Context, _ *Env, args []string) (string, bool, error) {
	if args[1] == args[2] {
		return "", false, fmt.Errorf("assertion failed: %s (both are %q)", args[0], args[1])
	}
	return "", false, nil
}

// cpuinfo_check:RE:TEXT:RE:TEXT...[:ELSE] returns the TEXT of the first regular expression that
// matches in /proc/cpuinfo, else ELSE.
func cpuinfoCheck(_ context.Context, env *Env, args []string) (string, bool, error) {
	cpuinfo, err := env.kernelFile("/proc/cpuinfo")
	if err != nil {
		return "", false, err
	}
	return firstMatch(cpuinfo, args, func(err error) error { return err })
}

// lscpu_check is cpuinfo_check for the output of lscpu, whatever its exit code. An invalid regular
// expression matches nothing.
func lscpuCheck(ctx context.Context, env *Env, args []string) (string, bool, error) {
	res, err := env.run(ctx, "lscpu")
	if host.Unknown(err) {
		return "", false, err
	}
	if err != nil {
		env.Warn("lscpu_check: %v", err)
	}
	return firstMatch(newlines(res.Stdout), args, func(err error) error {
		env.Warn("lscpu_check: %v", err)
		return nil
	})
}

func firstMatch(text string, args []string, wrong func(error) error) (string, bool, error) {
	for i := 0; i+1 < len(args); i += 2 {
		re, err := CompileRegexp(args[i], Multiline)
		if err != nil {
			if err := wrong(err); err != nil {
				return "", false, err
			}
			continue
		}
		if re.MatchString(text) {
			return args[i+1], true, nil
		}
	}
	if len(args)%2 == 1 {
		return args[len(args)-1], true, nil
	}
	return "", true, nil
}

// exec:PROGRAM:ARG... returns the output of the program, including its last newline.
func execProgram(ctx context.Context, env *Env, args []string) (string, bool, error) {
	res, err := env.run(ctx, args...)
	switch {
	case host.Unknown(err):
		return "", false, err
	case err != nil:
		env.Warn("exec: %v", err)
		return "", false, nil
	case res.ExitCode != 0:
		env.Warn("exec: %s ended with exit code %d: %s", args[0], res.ExitCode, strings.TrimSpace(string(res.Stderr)))
		return "", false, nil
	}
	return newlines(res.Stdout), true, nil
}

// virt_check:VM:METAL returns VM if virt-what names a hypervisor, else METAL. If virt-what is
// missing, fails or is not recorded, it uses the machine's files, as the recommendation does. If
// these are inconclusive, it returns METAL with a warning.
func virtCheck(ctx context.Context, env *Env, args []string) (string, bool, error) {
	res, err := env.run(ctx, "virt-what")
	v := virtualisation{known: true, virtual: len(res.Stdout) > 0}
	switch {
	case host.Unknown(err):
		if v = virtualisationFiles(env.Host); !v.known {
			return "", false, err
		}
	case err != nil || res.ExitCode != 0:
		v = virtualisationFiles(env.Host)
	}
	switch {
	case !v.known:
		env.Warn("virt_check: virt-what missing, so virtualization is unknown (%s); assuming bare metal", v.source)
	case v.virtual:
		return args[0], true, nil
	}
	return args[1], true, nil
}

// log:TEXT... returns the concatenation of its arguments and adds it to the warnings.
func logMessage(_ context.Context, env *Env, args []string) (string, bool, error) {
	text := strings.Join(args, "")
	env.Warn("%s", text)
	return text, true, nil
}

// regex_search_ternary:TEXT:RE:YES:NO returns YES if the regular expression matches anywhere
// in TEXT, else NO.
func regexSearchTernary(_ context.Context, _ *Env, args []string) (string, bool, error) {
	re, err := CompileRegexp(args[1], 0)
	if err != nil {
		return "", false, err
	}
	if re.MatchString(args[0]) {
		return args[2], true, nil
	}
	return args[3], true, nil
}

// strip:TEXT... returns the concatenation without white space at its ends.
func stripText(_ context.Context, _ *Env, args []string) (string, bool, error) {
	return strip(strings.Join(args, "")), true, nil
}

// run runs a program of the machine, for a function with Executes.
func (env *Env) run(ctx context.Context, argv ...string) (host.Result, error) {
	return env.Host.Exec.Run(ctx, host.Command{Argv: argv})
}

// newlines decodes a program's output like Python's text mode: all line ends become \n.
func newlines(out []byte) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(out))
}

// kernelFile reads a file that every running kernel has. If a live machine hides it (a container),
// the result is "", with a warning. If a copied machine lacks it, the error satisfies
// host.Unknown.
func (env *Env) kernelFile(path string) (string, error) {
	b, err := env.Host.Files.ReadFile(path)
	switch {
	case err == nil:
		return string(b), nil
	case host.Unknown(err):
		return "", err
	case !env.Host.Live && errors.Is(err, fs.ErrNotExist):
		return "", host.NotRecorded(path)
	}
	env.Warn("%v", err)
	return "", nil
}

// Function is one built-in function of the profile language, called as
// ${f:name:arg:arg}. The table Functions lists all of them.
type Function struct {
	// Name is the name after "f:".
	Name string
	// Args are the arguments in the manual's notation. Doc describes the result. Since is the
	// first TuneD with the function, or "" if 2.20 has it.
	Args, Doc, Since string
	// MinArgs and MaxArgs limit the number of arguments; MaxArgs 0 means any number. The loader
	// checks them before Call. Other calls stay unexpanded with a warning, as in TuneD.
	MinArgs, MaxArgs int
	// Executes is true if the function runs a program. The loader calls it only if Execute is
	// set, and records the result.
	Executes bool
	// Fixed is true if the program is always the same and only reads. It may then run whenever a
	// profile is loaded on a machine, so that diff shows the same as tune.
	Fixed bool
	// Call computes the result from expanded arguments. If ok is false, the call's text stays
	// unexpanded, as in TuneD when a function returns None. An error ends the loading of the
	// profile (assertion); an error with host.Unknown defers the call.
	Call func(ctx context.Context, env *Env, args []string) (result string, ok bool, err error)
}

// Env is the environment of a built-in function.
type Env struct {
	Host *host.Host
	// Dirs is the profile search path; later directories win.
	Dirs []string
	// Warn records a warning for the user (TuneD's log): one sentence in lower case without a
	// full stop. The loader always sets it.
	Warn func(format string, args ...any)
}
