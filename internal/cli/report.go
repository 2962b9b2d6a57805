package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/page"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ReportResult is the JSON form of fettle report.
type ReportResult struct {
	Schema   string      `json:"schema"` // fettle/report/v1
	Headline ui.Headline `json:"headline"`
	File     string      `json:"file"`
	Runs     []string    `json:"runs"` // run IDs
}

func reportCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "report [RUN...] --html FILE", Short: "Write measurements as one HTML page",
		Long: `Writes one HTML page: the verdict in words, intervals, every sample in its order, curves,
the settings that differed, and how to repeat the measurement. RUN is an ID, its
beginning, or a file of fettle runs export, from this or another machine; the default is
the last run.`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case file == "":
				return ui.Retry(ui.Usage, errors.New("want --html FILE, or --html - for standard output"), "", "--html=report.html")
			case file == "-" && a.data():
				return ui.Without(errors.New("--html - and --output are both for standard output"), "--output")
			}
			runs, err := a.findRuns(c, args)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := page.Write(&b, runs); err != nil {
				return err
			}
			if file == "-" {
				_, err := b.WriteTo(a.screen.Out)
				return err
			}
			if err := writePage(file, b.Bytes()); err != nil {
				return err
			}
			res := ReportResult{Schema: "fettle/report/v1", File: file}
			for _, r := range runs {
				res.Runs = append(res.Runs, r.ID)
			}
			h := &res.Headline
			h.Line("%s: a page of %s, to be opened in a browser", file, h.Count("runs", len(runs), "run"))
			if a.data() {
				return a.result(res, nil)
			}
			ui.PrintHeadline(a.screen, h)
			return nil
		},
	}
	c.Flags().StringVar(&file, "html", "", "file to write; - for standard output")
	return c
}

// pageBegins is the start of every page.
var pageBegins = []byte("<!doctype html>")

// writePage writes a page.
func writePage(name string, text []byte) error { return replace(name, text, pageBegins, "page") }

// replace atomically writes a document, replacing an older one of its kind. It does not
// overwrite a file that begins differently, because users easily name the evidence by mistake.
func replace(name string, text, begins []byte, kind string) error {
	if f, err := os.Open(name); err == nil {
		begin := make([]byte, len(begins))
		st, unknown := f.Stat()
		_, _ = io.ReadFull(f, begin) // a shorter file differs
		f.Close()
		switch {
		case unknown != nil:
			return unknown
		case !st.Mode().IsRegular():
			return os.WriteFile(name, text, 0o644)
		case st.Size() > 0 && !bytes.Equal(begin, begins):
			return ui.Hinted(ui.Refused, fmt.Errorf("%s exists, and is not a %s", name, kind), "name another file, or move it away: mv "+internaltext.Quote(name)+" "+internaltext.Quote(name+".old"))
		}
	}
	return host.WriteFile(name, text, 0o644)
}

// findRuns returns the runs that a command line names, by ID or by files that contain them.
// Without words it returns the latest run.
func (a *app) findRuns(c *cobra.Command, words []string) (all []*evidence.Run, err error) {
	var m *tune.Machine
	store := func() (*tune.Machine, error) {
		if m == nil {
			if err := a.mustBeLive(); err != nil {
				return nil, err
			}
			m, err = a.machineAsIs(c.Context())
		}
		return m, err
	}
	if len(words) == 0 {
		m, err := store()
		if err != nil {
			return nil, err
		}
		runs, err := experiment.Store(m).All()
		if len(runs) > 0 {
			if err != nil {
				a.screen.Say("left out: %v", err) // it may have been the last one
			}
			return runs[len(runs)-1:], nil
		}
		if err != nil {
			return nil, experiment.Damaged(m.Unreadable(err))
		}
		return nil, ui.Hinted(ui.Failed, errors.New("nothing was measured yet"), "fettle prove and fettle bench measure")
	}
	for _, word := range words {
		if strings.TrimSpace(word) == "" {
			return nil, ui.Hinted(ui.Usage, errors.New("the name of a run is empty"), "want the ID of a run or its beginning, which fettle runs list shows, or a file with records")
		}
		if filepath.Ext(word) == ".json" || filepath.Base(word) != word {
			runs, err := evidence.ReadFile(word)
			if err != nil {
				return nil, experiment.Damaged(err)
			}
			all = append(all, runs...)
			continue
		}
		m, err := store()
		if err != nil {
			return nil, err
		}
		r, err := experiment.Find(m, word)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
