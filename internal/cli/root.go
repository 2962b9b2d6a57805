// Package cli contains the verbs of fettle, one file each, with flags, run function and output.
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

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/size"
	"fettle.dev/fettle/internal/engine/journal"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// app is one call of the program, with the system that it acts on, global flags and screen.
type app struct {
	system
	version     string
	root        string
	stateFlag   string // --state-dir
	profileDirs []string
	output      string
	screen      *ui.Screen
	command     string // the command line, quoted for sh, for journal and evidence
	asCommand   string // command without --reason
	note        string // --reason
	window      string // --window of a verb that writes
}

// Main runs one command line and returns the exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	return thisSystem().main(version, args, out, errw)
}

func (sys system) main(version string, args []string, out, errw io.Writer) int {
	out, errw = withoutSIGPIPE(out), withoutSIGPIPE(errw)
	if v, ok := verbOf(args); ok && v.is&readOnly != 0 {
		return sys.run(context.Background(), version, args, out, errw)
	}
	// Ctrl-C, a lost terminal and SIGTERM end the context; the verbs undo their changes.
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second one ends the process, unless the verb ignores it
	}()
	return sys.run(ctx, version, args, out, errw)
}

// withoutSIGPIPE duplicates standard output, so that a closed pipe is a write error and not a
// signal that would end a transaction: Go raises SIGPIPE only for descriptors 1 and 2 (package
// os/signal). Programs that fettle starts would inherit an ignored signal.
func withoutSIGPIPE(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok || f.Fd() > 2 {
		return w
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return w // closed: a write reports it
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// run does the work of main until ctx ends.
func (sys system) run(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	screen := ui.NewScreen(out, errw)
	screen.Out = &cliutil.Out{Writer: out}
	a := &app{system: sys, version: version, screen: screen, command: internaltext.CommandLine(append([]string{"fettle"}, args...))}
	a.asCommand = internaltext.CommandLine(append([]string{"fettle"}, withoutReason(args)...))
	screen.Call = cliutil.Calls("fettle", args, func(args []string) *cobra.Command { return tree(version, args) })
	root := a.rootCommand(args...)
	root.SetArgs(args)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if f := formatOf(args); a.screen.Format == ui.Table && f != "" {
			a.screen.Format = f // the arguments are wrong, so nothing has read --output yet
		}
	}
	return cliutil.Ended(a.screen, err)
}

// formatOf returns the format that --output selects in an invalid call, or "". Cobra stops
// parsing at the first invalid argument, so formatOf uses a command that has only --output and
// ignores the rest.
func formatOf(args []string) ui.Format {
	c := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	c.InitDefaultHelpFlag() // without it the parser would end at --help
	value := c.Flags().StringP("output", "o", "", "")
	_ = c.ParseFlags(args) // its error was reported
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

// tree returns another command tree than the running one.
func tree(version string, args []string) *cobra.Command {
	a := &app{system: thisSystem(), version: version, screen: ui.NewScreen(os.Stdout, os.Stderr)}
	return a.rootCommand(args...)
}

// rootCommand creates the command tree. If the arguments start with a verb, it has only that
// one, because all verbs with their flags would take a twentieth of the time of a short one.
func (a *app) rootCommand(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "fettle",
		Short: "Measure a machine, tune it, prove that it helped, undo it",
		Long: `fettle shows every change before it is made, applies TuneD profiles in milliseconds,
gives a verdict for every value, and restores all of it exactly, even after a crash.
Exit codes: fettle help exit-codes.`,
		Version:           a.version,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetVersionTemplate("fettle {{.Version}}\n")
	f := root.PersistentFlags()
	cliutil.RootFlag(f.StringVar, &a.root)
	f.StringVar(&a.stateFlag, "state-dir", "", "directory of the journal and the active profiles (default /var/lib/fettle)")
	f.StringArrayVar(&a.profileDirs, "profile-dir", nil, "another directory of profiles; repeatable, the last one wins; with --root inside that tree")
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
	cliutil.Complete(root, a.completions())
	help.Install(root)
	return cliutil.Words(root, guides, size.Guides)
}

// help returns the help of the program.
func (a *app) help() *cliutil.Help {
	h := &cliutil.Help{Screen: a.screen, Start: "Start with fettle check. fettle VERB --help explains a verb, fettle --help all."}
	for _, v := range verbs {
		if v.group != "" {
			h.Entries = append(h.Entries, cliutil.Entry{Name: v.name, Group: v.group, Rare: v.is&rare != 0})
		}
	}
	for _, name := range []string{"completion"} { // cobra's
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
		run := sub.RunE
		sub.RunE = func(c *cobra.Command, args []string) error {
			if v.is&liveOnly != 0 && a.root != "" {
				return ui.Without(errReadOnlyRoot, "--root")
			}
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

// verb is an entry in the table of verbs.
type verb struct {
	name    string // as the command's
	command func(*app) *cobra.Command
	group   string // in the help; "" for a hidden verb
	is      property
}

// property describes what a verb does to the machine.
type property int

const (
	// readOnly: there is nothing to undo, so a signal may end the process. (Catching signals
	// needs extra threads.)
	readOnly  property = 1 << iota
	liveOnly           // rejects --root
	needsRoot          // requires root privileges
	writing            // has --reason and --window
	rare               // has no line of its own in the overview
)

// other is the group of the verbs that belong to no other one.
const other = "Other"

// verbs is the table of all verbs, by group, in the order in which people work.
var verbs = []verb{
	{"facts", factsCommand, "Look", 0},
	{"status", statusCommand, "Look", readOnly},
	{"why", whyCommand, "Look", readOnly},
	{"history", historyCommand, "Look", readOnly},
	{"list", listCommand, "Look", readOnly | rare},
	{"show", showCommand, "Look", readOnly | rare},
	{"recommend", recommendCommand, "Tune", readOnly},
	{"diff", diffCommand, "Tune", 0},
	{"tune", tuneCommand, "Tune", writing | liveOnly | needsRoot},
	{"confirm", confirmCommand, "Tune", writing | liveOnly | needsRoot | rare},
	{"verify", verifyCommand, "Tune", readOnly},
	{"undo", undoCommand, "Tune", writing | liveOnly | needsRoot},
	{"import", importCommand, "Tune", rare},
	{"check", checkCommand, "Audit", 0},
	{"fix", fixCommand, "Audit", writing},
	{"rules", rulesCommand, "Audit", rare},
	{"size", sizeCommand, "Size", 0},
	{"bench", benchCommand, "Measure", liveOnly},
	{"prove", proveCommand, "Measure", writing | liveOnly | needsRoot},
	{"runs", runsCommand, "Measure", rare},
	{"logs", logsCommand, "Requests", 0},
	{"load", loadCommand, "Requests", liveOnly},
	{"daemon", daemonCommand, "Daemon", liveOnly | needsRoot},
	{"schedule", scheduleCommand, "Daemon", 0},
	{"schema", schemaCommand, other, readOnly | rare},
	{"version", versionCommand, other, readOnly | rare},
	{"watch-trial", watchTrialCommand, "", 0},
	{"watch-experiment", watchExperimentCommand, "", 0},
	{"measure-memory", measureMemoryCommand, "", readOnly},
	{"recover", recoverCommand, "", 0},
}

// verbOf returns the verb at the start of a call.
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

func (a *app) setUp(c *cobra.Command) (err error) {
	a.screen.Example = cliutil.Example(c)
	if err = cliutil.SetFormat(c, a.screen, a.command); err != nil {
		return err
	}
	if a.stateFlag != "" { // a watchdog has another working directory
		a.stateFlag, err = filepath.Abs(a.stateFlag)
	}
	return err
}

// moreFormats is the annotation of a command with additional formats.
const moreFormats = cliutil.MoreFormats

// data reports whether the output is JSON or YAML.
func (a *app) data() bool { return cliutil.ForPrograms(a.screen) }

// result prints the result of a command as data, and returns err.
func (a *app) result(doc any, err error) error { return cliutil.Result(a.screen, doc, err) }

var errReadOnlyRoot = errors.New("this command acts on the live machine; leave out --root")

// mustBeLive rejects --root.
func (a *app) mustBeLive() error {
	if a.root != "" {
		return ui.Without(errReadOnlyRoot, "--root")
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
