// Package cli implements the verbs of fettle, one file each, with flags, run function and output.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/size"
	"fettle.dev/fettle/internal/engine/journal"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// app is one call of the program: its environment, global flags and screen.
type app struct {
	system
	version     string
	root        string
	stateFlag   string // --state-dir
	profileDirs []string
	output      string
	screen      *ui.Screen
	args        []string // as called
	command     string   // command line, quoted for sh, without the values of secret options
	asCommand   string   // command without --reason
	note        string   // --reason
	window      string   // --window of a verb that writes
	foreign     []string // arguments of another program: see foreignArguments
}

// Main runs the program with args and returns its exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	return thisSystem().main(version, args, out, errw)
}

func (sys system) main(version string, args []string, out, errw io.Writer) int {
	out, errw = withoutSIGPIPE(out), withoutSIGPIPE(errw)
	if v, ok := verbOf(args); ok && v.is&readOnly != 0 {
		return sys.run(context.Background(), version, args, out, errw)
	}
	// Ctrl-C, a lost terminal and SIGTERM end the context. Verbs then undo their changes.
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process, unless the verb ignores it
	}()
	return sys.run(ctx, version, args, out, errw)
}

// withoutSIGPIPE duplicates standard output, so that writing to a closed pipe is an error. Go
// raises SIGPIPE only for descriptors 1 and 2 (package os/signal), and the signal would end a
// transaction. Ignoring it instead would affect programs that fettle starts.
func withoutSIGPIPE(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok || f.Fd() > 2 {
		return w
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return w // closed; a write returns the error
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// run runs a command line until ctx ends, and returns the exit code.
func (sys system) run(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	screen := ui.NewScreen(out, errw)
	screen.Out = &cliutil.Out{Writer: out}
	a := &app{system: sys, version: version, screen: screen, args: args}
	a.setCommand(args)
	args, a.foreign = foreignArguments(args)
	call := cliutil.Calls("fettle", args, func(args []string) *cobra.Command { return tree(version, args) })
	screen.Call = func(r ui.Remedy) string {
		return strings.TrimSpace(call(r) + " " + internaltext.CommandLine(a.foreign))
	}
	root := a.rootCommand(args...)
	root.SetArgs(args)
	root.SetErr(errw)
	err := cliutil.WrongFile(root.ExecuteContext(ctx), args)
	if err != nil {
		if f := formatOf(args); a.screen.Format == ui.Table && f != "" {
			a.screen.Format = f // the arguments are invalid, so --output was not parsed
		}
	}
	return cliutil.Ended(a.screen, err)
}

// formatOf returns the format of --output in an invalid call, or "". Cobra stops at the first
// invalid argument. So formatOf parses with a command that has only --output and ignores other
// flags.
func formatOf(args []string) ui.Format {
	c := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	c.InitDefaultHelpFlag() // otherwise the parser would stop at --help
	value := c.Flags().StringP("output", "o", "", "")
	_ = c.ParseFlags(args) // its error was already reported
	f, err := ui.ParseFormat(*value)
	if err != nil {
		return ""
	}
	return f
}

// sayUnread reports the result of a transaction on standard error if the output's reader closed
// the pipe.
func (a *app) sayUnread(tx int, result string) {
	if w, ok := a.screen.Out.(*cliutil.Out); ok && w.Unread && tx != 0 {
		a.screen.Say("output not read to its end, but transaction %d is complete: %s; see fettle history", tx, result)
	}
}

// Command returns the whole command tree, for manual pages and completions.
func Command(version string) *cobra.Command { return tree(version, nil) }

// tree returns a command tree independent of the running one.
func tree(version string, args []string) *cobra.Command {
	a := &app{system: thisSystem(), version: version, screen: ui.NewScreen(os.Stdout, os.Stderr)}
	return a.rootCommand(args...)
}

// rootCommand creates the command tree. If the arguments start with a verb, the tree has only
// that verb: creating all verbs would take 5 % of the time of a short one.
func (a *app) rootCommand(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "fettle",
		Short: "Measure a machine, tune it, prove that it helped, undo it",
		Long: `fettle shows every change before it is made, applies TuneD profiles in milliseconds,
and gives a verdict for every value. It restores all old values exactly, even after a
crash. Exit codes: fettle help exit-codes.`,
		Version:           a.version,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetVersionTemplate("fettle {{.Version}}\n")
	f := root.PersistentFlags()
	cliutil.RootFlag(f.StringVar, &a.root)
	f.StringVar(&a.stateFlag, "state-dir", "", "directory of the journal and the active profiles (default /var/lib/fettle)")
	f.StringArrayVar(&a.profileDirs, "profile-dir", nil, "additional directory of profiles; repeatable, the last one takes precedence; with --root: a path inside the copy")
	cliutil.Root(root, a.screen, &a.output)
	root.SetOut(a.screen.Out) // before the completion command copies it
	help := a.help()
	if v, ok := verbOf(args); ok {
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Hidden: true})
		root.AddCommand(a.commandOf(v))
		help.Install(root)
		return cliutil.Words(root, guides, size.Guides)
	}
	for _, v := range verbs {
		root.AddCommand(a.commandOf(v))
	}
	cliutil.Defaults(root)
	cliutil.Complete(root, args, a.completions(), size.Completions())
	help.Install(root)
	return cliutil.Words(root, guides, size.Guides)
}

// help returns the program's help.
func (a *app) help() *cliutil.Help {
	h := &cliutil.Help{Screen: a.screen, Start: "Start with fettle check. fettle VERB --help explains a verb, fettle --help all."}
	for _, v := range verbs {
		if v.group != "" {
			h.Entries = append(h.Entries, cliutil.Entry{Name: v.name, Group: v.group, Rare: v.is&rare != 0})
		}
	}
	for _, name := range []string{"completion"} { // cobra's own commands
		h.Entries = append(h.Entries, cliutil.Entry{Name: name, Group: other, Rare: true})
	}
	return h
}

// commandOf creates the command of a verb. It applies the verb's properties to the command and
// its subcommands.
func (a *app) commandOf(v verb) *cobra.Command {
	c := v.command(a)
	for _, sub := range append(c.Commands(), c) {
		if !sub.Hidden {
			cliutil.NotEmpty(sub)
		}
		if sub.HasSubCommands() {
			continue
		}
		if v.is&writing != 0 {
			a.writes(sub)
		}
		if v.is&liveOnly != 0 { // before all other checks, whose suggested calls would keep --root
			check := sub.PreRunE
			sub.PreRunE = func(c *cobra.Command, args []string) error {
				if err := a.mustBeLive(); err != nil || check == nil {
					return err
				}
				return check(c, args)
			}
		}
		run := sub.RunE
		sub.RunE = func(c *cobra.Command, args []string) error {
			if v.is&needsRoot != 0 {
				if err := a.mustBeRoot(); err != nil {
					return err
				}
			}
			return run(c, args)
		}
	}
	return c
}

// verb is an entry of the verb table.
type verb struct {
	name    string // as the command's
	command func(*app) *cobra.Command
	group   string // in the help; "" for a hidden verb
	is      property
}

// property is a set of properties of a verb, such as its effect on the machine.
type property int

const (
	// readOnly means that there is nothing to undo, so a signal may end the process at once.
	// (Handling signals needs more threads.)
	readOnly  property = 1 << iota
	liveOnly           // rejects --root
	needsRoot          // requires root privileges
	writing            // has --reason and --window
	rare               // has no line of its own in the overview
)

// other is the help group of verbs without another group.
const other = "Other"

// verbs lists all verbs by group, in the order of a typical workflow.
var verbs = []verb{
	{"facts", factsCommand, "Look", 0},
	{"status", statusCommand, "Look", readOnly},
	{"why", whyCommand, "Look", readOnly},
	{"history", historyCommand, "Look", readOnly},
	{"numa", numaCommand, "Look", 0},
	{"power", powerCommand, "Look", rare},
	{"irq", irqCommand, "Look", readOnly | rare},
	{"list", listCommand, "Look", readOnly | rare},
	{"show", showCommand, "Look", readOnly | rare},
	{"recommend", recommendCommand, "Tune", readOnly},
	{"diff", diffCommand, "Tune", 0},
	{"tune", tuneCommand, "Tune", writing | liveOnly | needsRoot},
	{"confirm", confirmCommand, "Tune", writing | liveOnly | needsRoot | rare},
	{"verify", verifyCommand, "Tune", readOnly},
	{"undo", undoCommand, "Tune", writing | liveOnly | needsRoot},
	{"eject", ejectCommand, "Tune", rare},
	{"import", importCommand, "Tune", rare},
	{"check", checkCommand, "Audit", 0},
	{"fix", fixCommand, "Audit", writing},
	{"rules", rulesCommand, "Audit", rare},
	{"size", sizeCommand, "Size", 0},
	{"bench", benchCommand, "Measure", liveOnly},
	{"prove", proveCommand, "Measure", writing | liveOnly},
	{"search", searchCommand, "Measure", writing | liveOnly | rare},
	{"quiet", quietCommand, "Measure", rare},
	{"runs", runsCommand, "Measure", rare},
	{"logs", logsCommand, "Requests", 0},
	{"load", loadCommand, "Requests", liveOnly},
	{"daemon", daemonCommand, "Daemon", liveOnly | needsRoot},
	{"schedule", scheduleCommand, "Daemon", rare},
	{"schema", schemaCommand, other, readOnly | rare},
	{"version", versionCommand, other, readOnly | rare},
	{"watch-trial", watchTrialCommand, "", 0},
	{"watch-experiment", watchExperimentCommand, "", 0},
	{"measure-memory", measureMemoryCommand, "", readOnly},
	{"recover", recoverCommand, "", 0},
}

// verbOf returns the verb at the start of a command line.
func verbOf(args []string) (verb, bool) {
	if len(args) == 0 {
		return verb{}, false
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == args[0] })
	if i < 0 {
		return verb{}, false
	}
	return verbs[i], true
}

func sizeCommand(a *app) *cobra.Command {
	return size.Command(&size.Program{Screen: a.screen, Call: a.command, Root: &a.root, Live: a.live})
}

// setCommand sets the command line that is shown and recorded.
func (a *app) setCommand(args []string) {
	a.command = internaltext.CommandLine(append([]string{"fettle"}, args...))
	a.asCommand = internaltext.CommandLine(append([]string{"fettle"}, withoutReason(args)...))
}

func (a *app) setUp(c *cobra.Command) (err error) {
	a.setCommand(cliutil.WithoutSecrets(c.Flags(), a.args))
	a.screen.Example = cliutil.Example(c)
	if err = cliutil.SetFormat(c, a.screen, a.command); err != nil {
		return err
	}
	if a.stateFlag != "" { // the watchdog has another working directory
		a.stateFlag, err = filepath.Abs(a.stateFlag)
		a.screen.State = internaltext.CommandLine([]string{"--state-dir", a.stateFlag})
	}
	return err
}

// moreFormats is the annotation of a command with additional formats.
const moreFormats = cliutil.MoreFormats

// data reports whether the output is JSON or YAML.
func (a *app) data() bool { return cliutil.ForPrograms(a.screen) }

// result prints the result of a command as data, and returns err.
func (a *app) result(doc any, err error) error { return cliutil.Result(a.screen, doc, err) }

// errReadOnlyRoot suggests no call: the same call without --root would act on this machine
// instead of the other one.
var errReadOnlyRoot = ui.Hinted(ui.Usage, errors.New("this command acts on the live machine; leave out --root"), "for the other machine: run fettle there")

// mustBeLive returns an error with --root.
func (a *app) mustBeLive() error {
	if a.root != "" {
		return errReadOnlyRoot
	}
	return nil
}

// mustBeRoot returns an error if this process may not change the machine.
func (a *app) mustBeRoot() error {
	if os.Geteuid() != 0 && a.stateDir == journal.DefaultDir {
		return ui.AsRoot(errors.New("only root can change this machine"), "to see the changes without root: fettle diff")
	}
	return nil
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := Version{Schema: "fettle/version/v1", Version: a.version, Go: runtime.Version()}
			if a.data() {
				return a.result(v, nil)
			}
			_, err := fmt.Fprintf(a.screen.Out, "fettle %s (%s, %s/%s)\n", v.Version, v.Go, runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// Version is the JSON form of fettle version.
type Version struct {
	Schema  string `json:"schema"` // fettle/version/v1
	Version string `json:"version"`
	Go      string `json:"go"` // version that built it
}
