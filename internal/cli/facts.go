package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/irq"
	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// archiveFormat is the output format that writes an archive to standard output.
const archiveFormat = "archive"

type factsOptions struct {
	brief, details bool
	archive        string
}

func factsCommand(a *app) *cobra.Command {
	var o factsOptions
	c := &cobra.Command{
		Use: "facts [NAME...]", Short: "Show hardware, kernel and services of a machine",
		Long: `Shows the properties of this machine and writes nothing. A NAME, such as memory or
disk.vda.queue_depth, selects the facts that begin with it. The formats
json and yaml contain all facts, or only the branches of the given names. --output archive
writes the files that it read, without secrets, as a text archive. Other commands read
that archive with --root. --output foreman writes the request that uploads the facts to a
Foreman.`,
		Annotations: map[string]string{moreFormats: archiveFormat + " " + foremanFormat},
		RunE: func(c *cobra.Command, names []string) error {
			if o.brief && len(names) > 0 {
				return ui.Without(errors.New("--brief shows the whole machine; leave out the names or --brief"), "--brief")
			}
			if alone := errors.New("--output archive records the whole machine; leave out names, --brief and --archive"); a.screen.Format == archiveFormat && len(names) > 0 {
				return ui.Without(alone, "--output", "--brief", "--archive")
			} else if a.screen.Format == archiveFormat && (o.brief || o.archive != "") {
				return ui.Without(alone, "--brief", "--archive")
			}
			return a.facts(c.Context(), names, o)
		},
	}
	c.Flags().BoolVar(&o.brief, "brief", false, "print a summary of a dozen lines")
	c.Flags().BoolVar(&o.details, "details", false, "list every fact with its source")
	c.AddCommand(factsCompareCommand(a))
	c.Flags().StringVar(&o.archive, "archive", "", "also write all files that were read, without secrets, to this text archive; --root can read it")
	return c
}

func (a *app) facts(ctx context.Context, names []string, o factsOptions) error {
	if err := o.writable(); err != nil {
		return err
	}
	h, err := a.host()
	if err != nil {
		return err
	}
	var f *fact.Facts
	var rec *host.Recording
	if o.archive != "" || a.screen.Format == archiveFormat {
		stop := a.screen.Track(func() ui.Progress { return ui.Progress{Text: "recording what profiles and rules read"} })
		f, rec = fact.Archive(h, func(h *host.Host, rec *host.Recording) {
			a.readForPlans(ctx, h, rec)
			a.readForChecks(ctx, h)
			placement.Read(h)
			irq.Read(h)
			power.Open(h).Close()
		})
		stop()
		if err := ctx.Err(); err != nil {
			return err // incomplete
		}
	} else {
		f = fact.Collect(h)
	}
	if a.screen.Format == archiveFormat {
		_, err := rec.WriteTo(a.screen.Out)
		return err
	}
	some, missing := f.Select(names...)
	if len(missing) > 0 {
		return ui.Hinted(ui.Failed, fmt.Errorf("no fact begins with %q%s", missing[0], internaltext.Suggest(missing[0], f.Names())), "fettle facts --details lists all facts")
	}
	if o.archive != "" {
		if err := writeArchive(o.archive, rec); err != nil {
			return err
		}
		for _, file := range rec.TooLarge() {
			a.screen.Say("%s is larger than %d MiB and not in the archive; rules about it will be unknown", file, host.MaxRecorded>>20)
		}
		a.screen.Say("wrote %s: no passwords, keys or tokens, but names and addresses of this machine", o.archive)
	}
	if a.root != "" && !f.Determined() {
		err = a.undetermined()
	}
	if a.screen.Format == foremanFormat && err == nil {
		return a.foremanFacts(h, some)
	}
	headline := fact.Summarize(f)
	if len(names) > 0 {
		headline = some.Summarize(names)
	}
	f.Headline = &headline
	if a.data() {
		return a.result(some, err)
	}
	ui.PrintHeadline(a.screen, f.Headline)
	fmt.Fprintln(a.screen.Out)
	switch {
	case o.brief:
		fact.PrintBrief(a.screen, fact.Brief(f))
	case len(names) > 0 || o.details:
		fact.PrintSelection(a.screen, some)
	case err == nil:
		fmt.Fprintln(a.screen.Out, "to see more in a dozen lines, and every fact with its source:")
		ui.PrintCommand(a.screen, a.next("facts", "--brief"))
		ui.PrintCommand(a.screen, a.next("facts", "--details"))
	}
	return err
}

// undetermined returns the error for a --root that is not a copy of a machine.
func (a *app) undetermined() error {
	return ui.Hinted(ui.Failed, fmt.Errorf("nothing could be determined: no machine found in %s", a.root), "--root needs a directory with /proc, /sys and /etc of a machine, or an archive made by fettle facts --archive")
}

// writable returns an error if the archive cannot be written.
func (o factsOptions) writable() error {
	switch st, err := os.Stat(o.archive); {
	case o.archive == "":
		return nil
	case o.archive == "-":
		return ui.Instead(ui.Usage, errors.New("--archive -: want a file name; standard output already carries the facts"), "", "--archive=machine.txt")
	case err == nil && !st.Mode().IsRegular():
		// Renaming would replace a device by a file.
		return ui.Instead(ui.Usage, fmt.Errorf("--archive %s is %s; want a regular file or a new name", o.archive, host.DescribeType(st.Mode())), "", "--archive=machine.txt")
	}
	return cliutil.Writable("--archive", o.archive)
}

// writeArchive writes an archive atomically.
func writeArchive(path string, rec *host.Recording) error {
	var text bytes.Buffer
	if _, err := rec.WriteTo(&text); err != nil {
		return err
	}
	return host.WriteFile(path, text.Bytes(), 0o600)
}
