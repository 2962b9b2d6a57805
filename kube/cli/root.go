// Package cli implements the verbs of kubectl fettle, one file each: command, options, run
// function. kubectl runs the program as a plug-in because of its name, kubectl-fettle.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/size"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// app holds the global options and the screen, which all verbs share.
type app struct {
	version string
	call    string // the command line, quoted for a shell
	kube    kubeOptions
	output  string
	screen  *ui.Screen
	// server is the address of the API server, once a verb knows it.
	server string
	// patience limits one request to the API server; 0 means the default.
	patience time.Duration
}

// verb is one row of the table of verbs.
type verb struct {
	name    string // name of the command
	command func(*app) *cobra.Command
	group   string // group in the help
	rare    bool   // the overview omits it
}

// other is the group of verbs without another group.
const other = "Other"

// verbs lists all verbs by group, in the usual order of work.
var verbs = []verb{
	{"status", statusCommand, "Look", false},
	{"pod", podCommand, "Look", false},
	{"health", healthCommand, "Look", false},
	{"kubelet", kubeletCommand, "Tune", false},
	{"check", checkCommand, "Audit", false},
	{"size", sizeCommand, "Size", false},
	{"scale", scaleCommand, "Size", false},
	{"load", loadCommand, "Measure", false},
	{"logs", logsCommand, "Measure", false},
	{"operator", operatorCommand, "Daemon", false},
	{"agent", agentCommand, "Daemon", false},
	{"uninstall", uninstallCommand, "Daemon", false},
	{"schema", schemaCommand, other, true},
	{"version", versionCommand, other, true},
}

// Main runs one command line and returns the program's exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	// Ctrl-C, SIGTERM or a lost terminal ends the context; verbs then undo unfinished changes. A
	// second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go func() {
		<-ctx.Done()
		stop()
	}()
	return runUntil(ctx, version, args, out, errw)
}

// sizeCommand returns fettle's size command, which reads no cluster.
func sizeCommand(a *app) *cobra.Command {
	var root string
	c := size.Command(&size.Program{Screen: a.screen, Call: a.call, Root: &root, Live: host.Live})
	cliutil.RootFlag(c.PersistentFlags().StringVar, &root)
	for _, sub := range c.Commands() {
		cliutil.NotEmpty(sub)
	}
	return c
}

// runUntil implements Main; the end of ctx interrupts it.
func runUntil(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	screen := ui.NewScreen(out, errw)
	screen.Name, screen.Out = "kubectl fettle", &cliutil.Out{Writer: out}
	a := &app{version: version, call: text.CommandLine(append([]string{"kubectl", "fettle"}, args...)), screen: screen}
	screen.Call = cliutil.Calls("kubectl fettle", args, func(args []string) *cobra.Command { return tree(version, args...) })
	root := a.rootCommand(args...)
	root.SetArgs(args)
	root.SetErr(errw)
	err := a.unreached(root.ExecuteContext(ctx))
	return cliutil.Ended(a.screen, err)
}

// tree returns the command tree of a call, which is independent of the running one.
func tree(version string, args ...string) *cobra.Command {
	return (&app{version: version, screen: ui.NewScreen(os.Stdout, os.Stderr)}).rootCommand(args...)
}

// rootCommand returns the command tree of the program. If the arguments start with a verb, the
// tree has only that verb, as creating all would take most of the time of a refused call.
func (a *app) rootCommand(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-fettle",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fettle"},
		Short:       "Tune, audit, size and load a Kubernetes cluster",
		Long: `kubectl fettle tunes the nodes of a cluster, audits and loads the cluster, analyzes logs
in pods, predicts the admission of pods, and scales machine sets. In the cluster the same program runs as the
operator, which chooses each node's profile, and as the agent, which applies it.

kubectl's options for cluster and user come after the verb: those below, and --as,
--as-group, --as-uid, --certificate-authority, --client-certificate, --client-key,
--cluster, --disable-compression, --insecure-skip-tls-verify, --request-timeout,
--server, --tls-server-name, --token and --user (see kubectl options). For exit codes
see kubectl fettle help exit-codes.`,
		Version:           a.version,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetVersionTemplate("kubectl-fettle {{.Version}}\n")
	a.kube.flags(root.PersistentFlags())
	cliutil.Root(root, a.screen, &a.output)
	root.SetOut(a.screen.Out)
	named := slices.IndexFunc(verbs, func(v verb) bool { return len(args) > 0 && v.name == args[0] })
	if named >= 0 {
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Hidden: true})
		root.AddCommand(verbs[named].command(a))
	} else {
		for _, v := range verbs {
			root.AddCommand(v.command(a))
		}
		cliutil.Defaults(root)
		cliutil.Complete(root, args, a.completions(), size.Completions())
	}
	help := &cliutil.Help{Screen: a.screen, Start: "Start with kubectl fettle status. kubectl fettle VERB --help explains a verb."}
	for _, v := range verbs {
		help.Entries = append(help.Entries, cliutil.Entry{Name: v.name, Group: v.group, Rare: v.rare})
	}
	for _, name := range []string{"completion"} { // cobra's own
		help.Entries = append(help.Entries, cliutil.Entry{Name: name, Group: other, Rare: true})
	}
	help.Install(root)
	return cliutil.Words(root, guides, size.Guides)
}

// moreFormats is the annotation of a command with additional output formats.
const moreFormats = cliutil.MoreFormats

func (a *app) setUp(c *cobra.Command) error {
	a.screen.Example = cliutil.Example(c)
	return cliutil.SetFormat(c, a.screen, a.call)
}

// data reports whether the output is machine-readable.
func (a *app) data() bool { return cliutil.ForPrograms(a.screen) }

// result prints a command's result in a data format, and returns err.
func (a *app) result(doc any, err error) error { return cliutil.Result(a.screen, doc, err) }

// show prints a command's result in a data format, or by calling print, and returns err.
func (a *app) show(doc any, err error, print func()) error {
	if a.data() {
		return a.result(doc, err)
	}
	print()
	return err
}

// line prints a formatted line, with unprintable characters replaced.
func (a *app) line(format string, args ...any) {
	fmt.Fprintln(a.screen.Out, ui.Printable(fmt.Sprintf(format, args...)))
}

// confirm asks a question, and returns an error for any answer but yes.
func (a *app) confirm(ctx context.Context, question string) error {
	yes, err := a.screen.Confirm(ctx, question)
	if err == nil && !yes {
		err = ui.Retry(ui.Refused, errors.New("nothing changed: the answer was not yes"), "", "--yes")
	}
	return err
}

// logTo writes the log of a long-running verb to w, one line per record. The Kubernetes libraries
// log only warnings and errors, unless debug is set.
func logTo(w io.Writer, debug bool) logr.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log.With("of", "client"))
	return logr.FromSlogHandler(log.Handler())
}
