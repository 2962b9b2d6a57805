// Package kubecli holds the verbs of kubectl fettle, one file each: command,
// options, run function. The program is a plug-in of kubectl by its name,
// kubectl-fettle.
package kubecli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// app is what the verbs share: the global options and the screen.
type app struct {
	version string
	kube    kubeOptions
	output  string
	screen  *ui.Screen
	told    bool // what went wrong has been said
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
	{"scale", scaleCommand},
	{"kubelet", kubeletCommand},
	{"schema", schemaCommand},
}

// Main runs one command line and returns the exit code.
func Main(version string, args []string, out, errw io.Writer) int {
	// Ctrl-C ends the context, as do a lost terminal and a polite kill; the verbs
	// give back what has to be given back. A second one ends the process as ever.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go func() {
		<-ctx.Done()
		stop()
	}()
	return runUntil(ctx, version, args, out, errw)
}

// runUntil is Main, interrupted when ctx ends.
func runUntil(ctx context.Context, version string, args []string, out, errw io.Writer) int {
	a := &app{version: version, screen: ui.NewScreen(out, errw)}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if !a.told {
			a.screen.Fail(err)
		}
		if a.data() && !a.screen.Printed {
			// Who asked for data gets some, also of a failure.
			_ = report.Data(a.screen, Failure{Schema: "fettle/error/v1"}, ui.Code(err))
		}
	}
	return ui.Code(err)
}

// Failure is the JSON form of a command that failed before it had anything to
// print: the messages say why.
type Failure struct {
	Schema string `json:"schema"` // fettle/error/v1
}

// rootCommand makes the tree of commands.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-fettle",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fettle"},
		Short:       "Tune the nodes of a cluster, and say what became of it",
		Long: `kubectl fettle says which profile each node of a cluster is to have, has, and
why. In the cluster the same program is the operator that decides it and the
agent that applies it.

Exit codes:
` + exitCodeList(),
		Version:           a.version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.setUp(c) },
		Args:              knownVerb,
		// Names that are this many changes away are suggested.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("kubectl-fettle {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// The options of a verb that there is not are unknown, too.
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			err = cmp.Or(c.ValidateArgs(words), err)
		}
		return ui.Hinted(ui.Usage, err, fmt.Sprintf("see %s --help", c.CommandPath()))
	})
	f := root.PersistentFlags()
	a.kube.flags(f)
	f.StringVarP(&a.output, "output", "o", "table", "table, json, yaml or markdown")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
	root.SetOut(a.screen.Out)
	for _, v := range verbs {
		root.AddCommand(v.command(a))
	}
	return usage(root)
}

// knownVerb refuses a verb that there is not.
func knownVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	if s := c.SuggestionsFor(args[0]); len(s) > 0 {
		near = fmt.Sprintf(" (did you mean %q?)", s[0])
	}
	return fmt.Errorf("unknown command %q%s", args[0], near)
}

// usage turns cobra's complaints about arguments into usage errors.
func usage(c *cobra.Command) *cobra.Command {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return ui.Hinted(ui.Usage, err, fmt.Sprintf("see %s --help", c.CommandPath()))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		usage(sub)
	}
	return c
}

// moreFormats is the annotation of a command that has further formats.
const moreFormats = "formats"

func (a *app) setUp(c *cobra.Command) error {
	var more []ui.Format
	for name := range strings.FieldsSeq(c.Annotations[moreFormats]) {
		more = append(more, ui.Format(name))
	}
	format, err := ui.ParseFormat(a.output, more...)
	if err != nil {
		return err
	}
	a.screen.Format = format
	return nil
}

// data is true when the output is for programs.
func (a *app) data() bool { return a.screen.Format == ui.JSON || a.screen.Format == ui.YAML }

// result prints what came of a command as data, also where err is not nil, and
// returns err. What went wrong is said first, so that it is among the messages.
func (a *app) result(doc any, err error) error {
	if err != nil {
		a.screen.Fail(err)
		a.told = true
	}
	return errors.Join(err, report.Data(a.screen, doc, ui.Code(err)))
}

func exitCodeList() string {
	var b strings.Builder
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", e.Code, e.Meaning)
	}
	return b.String()
}
