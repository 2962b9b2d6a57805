// Package cli implements the verbs of kubectl fettle, one file each: command, options, run
// function. The program is a plug-in of kubectl by its name, kubectl-fettle.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/ui"
)

// app holds what the verbs share: the global options and the screen.
type app struct {
	version string
	kube    kubeOptions
	output  string
	screen  *ui.Screen
	// server is the address of the API server, once a verb knows it.
	server string
	// patience is the time limit for one request to it; 0 is the default.
	patience time.Duration
}

// verb is one line of the table of verbs.
type verb struct {
	name    string // as the command's
	command func(*app) *cobra.Command
}

// verbs is the table of all verbs, in the order of the help text.
var verbs = []verb{
	{"check", checkCommand},
	{"status", statusCommand},
	{"operator", operatorCommand},
	{"agent", agentCommand},
	{"load", loadCommand},
	{"pod", podCommand},
	{"health", healthCommand},
	{"scale", scaleCommand},
	{"kubelet", kubeletCommand},
	{"uninstall", uninstallCommand},
	{"schema", schemaCommand},
}

// Main runs one command line and returns the exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	// Ctrl-C, SIGTERM or a lost terminal ends the context; the verbs then undo what has to be
	// undone. A second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go func() {
		<-ctx.Done()
		stop()
	}()
	return runUntil(ctx, version, args, out, errw)
}

// runUntil implements Main; it is interrupted when ctx ends.
func runUntil(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	screen := ui.NewScreen(out, errw)
	screen.Name, screen.Out = "kubectl fettle", &cliutil.Out{Writer: out}
	a := &app{version: version, screen: screen}
	screen.Call = cliutil.Calls("kubectl fettle", args, func([]string) *cobra.Command { return tree(version) })
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetErr(errw)
	err := a.unreached(root.ExecuteContext(ctx))
	return cliutil.Ended(a.screen, err)
}

// tree returns a tree of commands that is independent of the running one.
func tree(version string) *cobra.Command {
	return (&app{version: version, screen: ui.NewScreen(os.Stdout, os.Stderr)}).rootCommand()
}

// rootCommand returns the tree of commands.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-fettle",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fettle"},
		Short:       "Tune the nodes of a cluster, and say what became of it",
		Long: `kubectl fettle tunes the nodes of a cluster and the kubelets on them: it says
which profile each node is to have, which one it has, and why. It checks a
running cluster, loads it with many objects and takes them back, says what a
kubelet does with a pod, and changes machine sets in steps. In the cluster the
same program is the operator, which decides what each node is to have, and the
agent, which applies it.

Which cluster, and as whom, is said with kubectl's own options, behind the verb.
Beside those below there are --as, --as-group, --as-uid,
--certificate-authority, --client-certificate, --client-key, --cluster,
--disable-compression, --insecure-skip-tls-verify, --request-timeout, --server,
--tls-server-name, --token and --user; kubectl options tells of each.`,
		Version:           a.version,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
	}
	root.SetVersionTemplate("kubectl-fettle {{.Version}}\n")
	a.kube.flags(root.PersistentFlags())
	cliutil.Root(root, a.screen, &a.output)
	root.SetOut(a.screen.Out)
	for _, v := range verbs {
		root.AddCommand(v.command(a))
	}
	return cliutil.Words(cliutil.Defaults(root), examples)
}

// moreFormats is the annotation of a command that has further formats.
const moreFormats = cliutil.MoreFormats

func (a *app) setUp(c *cobra.Command) error {
	a.screen.Example = cliutil.Example(c)
	format, err := cliutil.Format(c)
	if err != nil {
		return err
	}
	a.screen.Format = format
	return nil
}

// data reports whether the output is for programs.
func (a *app) data() bool { return cliutil.ForPrograms(a.screen) }

// result prints the result of a command as data, and returns err.
func (a *app) result(doc any, err error) error { return cliutil.Result(a.screen, doc, err) }

// show prints the result of a command, as data or by print, and returns err.
func (a *app) show(doc any, err error, print func()) error {
	if a.data() {
		return a.result(doc, err)
	}
	print()
	return err
}

// line prints a line for people.
func (a *app) line(format string, args ...any) {
	fmt.Fprintln(a.screen.Out, ui.Printable(fmt.Sprintf(format, args...)))
}

// confirm asks a question; any answer but yes is an error.
func (a *app) confirm(ctx context.Context, question string) error {
	yes, err := a.screen.Confirm(ctx, question)
	if err == nil && !yes {
		err = ui.Retry(ui.Refused, errors.New("nothing is changed: the answer was not yes"), "", "--yes")
	}
	return err
}

// examples has a call for each verb that takes arguments or useful flags, by its words: its
// arguments first. It is printed if a call lacks arguments.
var examples = map[string]string{
	"agent":         "--node worker-1",
	"check":         "--fail-on fail",
	"health":        "--output json",
	"kubelet":       "plan kubeletconfig.yaml",
	"kubelet plan":  "kubeletconfig.yaml",
	"load":          "plan",
	"load compare":  "a.json b.json --margin 5%",
	"load mirror":   "--write load",
	"load plan":     "load.yaml --offline",
	"load resume":   "--rate 100/s",
	"load run":      "load.yaml --rate 100/s",
	"load status":   "--output json",
	"load undo":     "--output json",
	"operator":      "--leader-elect=false",
	"pod":           "explain pod.yaml",
	"pod explain":   "pod.yaml",
	"pod record":    "/var/tmp/node",
	"pod verify":    "web-0",
	"scale":         "plan workers --to 3",
	"scale execute": "workers --to 3",
	"scale plan":    "workers --to 3",
	"schema":        "check",
	"status":        "--output json",
	"uninstall":     "--timeout 1h",
}

// logTo sends the log of a long-running verb and of the Kubernetes libraries to w, one line per
// record. The libraries log only warnings and errors, unless debug is set.
func logTo(w io.Writer, debug bool) logr.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log.With("of", "client"))
	return logr.FromSlogHandler(log.Handler())
}
