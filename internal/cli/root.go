// Package cli holds the verbs of fettle, one file each: command, options, run
// function.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// app is what the verbs share: the global options and the screen.
type app struct {
	version     string
	root        string
	stateDir    string
	profileDirs []string
	output      string
	screen      *ui.Screen
	command     string // the command line as sh takes it, for the journal and the evidence
	// asCommand is the command without --reason, whose text is note.
	asCommand string
	note      string
	window    string    // --window of a verb that writes
	once      *sync.Map // what is said once in a process
}

// Main runs one command line and returns the exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	out, errw = byAnotherNumber(out), byAnotherNumber(errw)
	if v, ok := asked(args); ok && v.reads {
		return runUntil(context.Background(), version, args, out, errw)
	}
	// Ctrl-C ends the context; the verbs give back what they have written. A
	// lost terminal and a polite kill are the same.
	ctx, stop := signal.NotifyContext(context.Background(), ending()...)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second one ends the process as ever, where nobody holds out
	}()
	return runUntil(ctx, version, args, out, errw)
}

// byAnotherNumber opens standard output once more. A reader that has seen enough
// must not end a transaction: its pipe is an error to write to, not a signal. To
// Go it is a signal for the descriptors 1 and 2 alone (package os/signal), and
// one that were ignored would be for the programs that fettle starts, too.
func byAnotherNumber(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok || f.Fd() > 2 {
		return w
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return w // closed: what is written will say so
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// runUntil is Main, interrupted when ctx ends.
func runUntil(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	screen := ui.NewScreen(out, errw)
	screen.Out = &cliutil.Out{Writer: out}
	a := &app{version: version, once: &sync.Map{}, screen: screen, command: internaltext.CommandLine(append([]string{"fettle"}, args...))}
	a.asCommand = internaltext.CommandLine(append([]string{"fettle"}, withoutReason(args)...))
	screen.Call = cliutil.Calls("fettle", args, func(args []string) *cobra.Command { return tree(version, args) })
	root := a.rootCommand(args...)
	root.SetArgs(args)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if f := askedFormat(args); a.screen.Format == ui.Table && f != "" {
			a.screen.Format = f // the words are off, so nothing has read --output yet
		}
	}
	return cliutil.Ended(a.screen, err)
}

// askedFormat is what --output says on a command line that is not understood
// otherwise; "" where it names no format. Cobra parses up to the first word that
// is off, so this is a command that knows --output alone and passes over the rest.
func askedFormat(args []string) ui.Format {
	c := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	c.InitDefaultHelpFlag() // otherwise the parser would end at it
	value := c.Flags().StringP("output", "o", "", "")
	_ = c.ParseFlags(args) // what is wrong with them is being told
	f, err := ui.ParseFormat(*value)
	if err != nil {
		return ""
	}
	return f
}

// sayUnread says on standard error what came of a transaction whose report
// nobody has read to its end.
func (a *app) sayUnread(tx int, result string) {
	if w, ok := a.screen.Out.(*cliutil.Out); ok && w.Unread && tx != 0 {
		a.screen.Say("nobody read the output: transaction %d is complete: %s; fettle history lists it", tx, result)
	}
}

// Command is the whole command tree, for manual pages and completions.
func Command(version string) *cobra.Command { return tree(version, nil) }

// tree is a tree of commands that is not the running one.
func tree(version string, args []string) *cobra.Command {
	a := &app{version: version, once: &sync.Map{}, screen: ui.NewScreen(os.Stdout, os.Stderr)}
	return a.rootCommand(args...)
}

// rootCommand makes the tree of commands: of the verb that the arguments begin
// with alone, where they do so, and else whole. All of them with their options
// would be a twentieth of the time of a short verb.
func (a *app) rootCommand(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "fettle",
		Short: "Measure a machine, tune it, prove that it helped, and undo it",
		Long: `fettle shows every change before it is made, applies TuneD profiles in
milliseconds, gives a verdict for every value, and takes all of it back exactly,
even after a crash.`,
		Version:           a.version,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetVersionTemplate("fettle {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.root, "root", "", "read another machine: a directory (sosreport, fixture) or an archive made by fettle facts --archive")
	f.StringVar(&a.stateDir, "state-dir", "", "where journal and selection are (default /var/lib/fettle)")
	f.StringArrayVar(&a.profileDirs, "profile-dir", nil, "also search DIR for profiles; repeatable, the last one wins; with --root a path inside that tree")
	cliutil.Root(root, &a.output)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if more := strings.Fields(c.Annotations[moreFormats]); len(more) > 0 {
			c.InheritedFlags().Lookup("output").Usage = "table, json, yaml, markdown, " + strings.Join(more, ", ")
		}
		help(c, args)
	})
	root.SetOut(a.screen.Out) // now, because the completion command keeps what it finds
	if v, ok := asked(args); ok {
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Hidden: true})
		root.AddCommand(v.command(a))
		return cliutil.Words(root, examples)
	}
	for _, v := range verbs {
		root.AddCommand(v.command(a))
	}
	return cliutil.Words(cliutil.Defaults(root), examples)
}

// verb is one line of the table of verbs.
type verb struct {
	name    string // as the command's
	command func(*app) *cobra.Command
	// reads: it writes nothing that would have to be given back, so a signal ends
	// it as it ends any program. To catch signals takes threads of its own.
	reads bool
}

// verbs is the table of all verbs, in the order of the help text.
var verbs = []verb{
	{"facts", factsCommand, false},
	{"check", checkCommand, false},
	{"fix", writing(fixCommand), false},
	{"rules", rulesCommand, false},
	{"size", sizeCommand, false},
	{"list", listCommand, true},
	{"show", showCommand, true},
	{"recommend", recommendCommand, true},
	{"diff", diffCommand, false},
	{"tune", writing(tuneCommand), false},
	{"confirm", writing(confirmCommand), false},
	{"status", statusCommand, true},
	{"verify", verifyCommand, true},
	{"why", whyCommand, true},
	{"history", historyCommand, true},
	{"undo", writing(undoCommand), false},
	{"schedule", scheduleCommand, false},
	{"bench", benchCommand, false},
	{"logs", logsCommand, false},
	{"load", loadCommand, false},
	{"prove", writing(proveCommand), false},
	{"runs", runsCommand, false},
	{"report", reportCommand, false},
	{"daemon", daemonCommand, false},
	{"import", importCommand, false},
	{"schema", schemaCommand, true},
	{"watch-trial", watchTrialCommand, false},
	{"watch-experiment", watchExperimentCommand, false},
	{"measure-memory", measureMemoryCommand, true},
	{"recover", recoverCommand, false},
}

// asked is the verb that a command line begins with.
func asked(args []string) (verb, bool) {
	if len(args) == 0 {
		return verb{}, false
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == args[0] })
	if i < 0 {
		return verb{}, false
	}
	return verbs[i], true
}

func (a *app) setUp(c *cobra.Command) error {
	a.screen.Example = cliutil.Example(c)
	if a.stateDir == "" && c.Flags().Changed("state-dir") {
		return ui.Without(errors.New("--state-dir is empty: leave it out for "+journal.DefaultDir), "--state-dir")
	}
	if a.root == "" && c.Flags().Changed("root") {
		return ui.Without(errors.New("--root is empty: leave it out for this machine"), "--root")
	}
	if slices.Contains(a.profileDirs, "") {
		return ui.Without(errors.New("--profile-dir is empty"), "--profile-dir")
	}
	format, err := cliutil.Format(c)
	if err != nil {
		return err
	}
	a.screen.Format = format
	if a.stateDir != "" {
		// A watchdog has another working directory.
		if a.stateDir, err = filepath.Abs(a.stateDir); err != nil {
			return err
		}
	}
	return nil
}

// noneEmpty refuses an option that was given nothing, as a variable of a script is
// that nobody has set.
func noneEmpty(c *cobra.Command) error {
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			all := list.GetSlice()
			empty = len(all) == 0 || slices.ContainsFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" })
		}
		if empty && err == nil {
			err = ui.Without(fmt.Errorf("--%s is empty: leave it out, or set the variable that it comes from", f.Name), "--"+f.Name)
		}
	})
	return err
}

// moreFormats is the annotation of a command that has further formats.
const moreFormats = cliutil.MoreFormats

// Formats of audits that other verbs have too.
const (
	openMetricsFormat = cliutil.OpenMetrics
	htmlFormat        = cliutil.HTML
)

// data is true when the output is for programs.
func (a *app) data() bool { return cliutil.ForPrograms(a.screen) }

// result prints what came of a command as data, and returns err.
func (a *app) result(doc any, err error) error { return cliutil.Result(a.screen, doc, err) }

var errReadOnlyRoot = errors.New("this verb acts on the live machine and takes no --root")

// mustBeLive refuses --root where a verb writes.
func (a *app) mustBeLive() error {
	if a.root != "" {
		return ui.Without(errReadOnlyRoot, "--root")
	}
	return nil
}

// mustBeRoot refuses to write without the rights to do it.
func mustBeRoot() error {
	if os.Geteuid() != 0 && defaultStateDir == journal.DefaultDir {
		return ui.AsRoot(errors.New("changing this machine needs root"), "fettle diff shows the changes without")
	}
	return nil
}
