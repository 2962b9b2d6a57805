package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/profile/rhel6"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ImportResult is the JSON form of fettle import rhel6.
type ImportResult struct {
	Schema   string      `json:"schema"` // fettle/import/v1
	Headline ui.Headline `json:"headline"`
	rhel6.Result
	Written string `json:"written,omitempty"` // the target directory
}

func importCommand(a *app) *cobra.Command {
	parent := &cobra.Command{Use: "import", Short: "Convert the files of another tool for fettle", Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	var write string
	c := &cobra.Command{
		Use: "rhel6 DIR", Short: "Convert a tuned profile of RHEL 6",
		Long: `Converts a RHEL 6 profile and prints the result. It explains each line that has no
exact equivalent. --write DIR writes the profile below DIR, ready for fettle tune.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.importRHEL6(c.Context(), args[0], write) },
	}
	c.Flags().StringVar(&write, "write", "", "write the profile into this directory, such as /etc/tuned; created if missing")
	parent.AddCommand(a.writes(c), importComplianceCommand(a))
	return parent
}

func (a *app) importRHEL6(ctx context.Context, dir, write string) error {
	if err := cliutil.WritableDir("--write", write); err != nil {
		return err
	}
	h, err := a.host()
	if err != nil {
		return err
	}
	if a.root == "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	res, err := rhel6.Import(ctx, h, dir)
	if err != nil {
		return err
	}
	doc := ImportResult{Schema: "fettle/import/v1", Result: res}
	for _, w := range res.Warnings {
		a.screen.Say("%s", w)
	}
	if write != "" {
		if doc.Written, err = writeProfile(write, res); err != nil {
			return err
		}
		a.logFile(h, "import", doc.Written)
	}
	head, done := &doc.Headline, "nothing written (use --write DIR)"
	if write != "" {
		done = "wrote " + doc.Written
	}
	head.Line("%s: %s imported, %s to review", done, head.Count("lines_taken_over", len(res.Translated), "line"), head.Count("lines_to_look_at", len(res.Warnings), ""))
	if a.data() {
		return ui.Data(a.screen, doc, ui.Done)
	}
	if write != "" {
		ui.PrintHeadline(a.screen, head)
		ui.PrintLine(a.screen, "to see what the profile would change:")
		ui.PrintCommand(a.screen, internaltext.CommandLine([]string{"fettle", "--profile-dir", filepath.Dir(doc.Written), "diff", res.Name}))
		return nil
	}
	for _, f := range res.Files {
		fmt.Fprintf(a.screen.Out, "--- %s/%s\n%s", res.Name, f.Path, f.Data)
	}
	return nil
}

// writeProfile writes a profile's files below parent, creating parent if it is missing. An
// existing profile is an error. After an error nothing is changed.
func writeProfile(parent string, res rhel6.Result) (dir string, err error) {
	files := host.Live().Files
	if parent, err = filepath.Abs(parent); err != nil {
		return "", err
	}
	var made []string
	defer func() {
		for _, p := range slices.Backward(made) {
			if err != nil {
				_ = files.Remove(p)
			}
		}
	}()
	dir = filepath.Join(parent, res.Name)
	for _, p := range append(host.MissingDirs(parent), dir) {
		if err := files.Mkdir(p, 0o755); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return "", ui.Hinted(ui.Refused, fmt.Errorf("%s exists", p), "name another directory, or move this one: mv "+internaltext.Quote(p)+" "+internaltext.Quote(p+".old"))
			}
			return "", err
		}
		made = append(made, p)
	}
	for _, f := range res.Files {
		p := filepath.Join(dir, f.Path)
		if err := files.Replace(p, []byte(f.Data), host.Attr{Mode: f.Mode}); err != nil {
			return "", err
		}
		made = append(made, p)
	}
	return dir, nil
}
