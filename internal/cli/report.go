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

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/page"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ReportResult is the JSON form of fettle report.
type ReportResult struct {
	Schema string   `json:"schema"` // fettle/report/v1
	File   string   `json:"file"`
	Runs   []string `json:"runs"` // their IDs
}

func reportCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "report [RUN...] --html FILE", Short: "Write runs as one page for a browser, which needs no network",
		Long: `Writes one HTML page: the verdict in words, intervals, every sample in its order,
curves, the settings that differed, and how to measure it again. A RUN is an ID or
its beginning, or a file that fettle runs export wrote, here or on another machine;
without one it is the run that began last.`,
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
			if a.data() {
				return a.result(res, nil)
			}
			a.screen.Say("%s: %d bytes, to be opened in a browser", file, b.Len())
			return nil
		},
	}
	c.Flags().StringVar(&file, "html", "", "the file to write; - is standard output")
	return c
}

// pageBegins is how each of our pages does.
var pageBegins = []byte("<!doctype html>")

// writePage writes a page.
func writePage(name string, text []byte) error { return replace(name, text, pageBegins, "page") }

// replace writes a document in the place of an older one of its kind, whole or not at
// all. What is there and does not begin as its kind does stays: the evidence is easily
// named by mistake.
func replace(name string, text, begins []byte, kind string) error {
	if f, err := os.Open(name); err == nil {
		begin := make([]byte, len(begins))
		st, unknown := f.Stat()
		_, _ = io.ReadFull(f, begin) // a shorter one is none either
		f.Close()
		switch {
		case unknown != nil:
			return unknown
		case !st.Mode().IsRegular():
			return os.WriteFile(name, text, 0o644)
		case st.Size() > 0 && !bytes.Equal(begin, begins):
			return ui.Hinted(ui.Refused, fmt.Errorf("%s is there already, and is not a %s", name, kind), "name another file, or move it away: mv "+internaltext.Quote(name)+" "+internaltext.Quote(name+".old"))
		}
	}
	return host.WriteFile(name, text, 0o644) // to be shown; its records may be anybody's to read or not
}

// damaged says what to do about a record that is not as it was recorded.
func damaged(err error) error {
	if !errors.As(err, new(*evidence.DamagedError)) {
		return err
	}
	return ui.Hinted(ui.Failed, err, "a damaged record is no evidence: put an intact copy in its place (fettle runs export writes one where it was measured), or remove the file")
}

// findRuns are the runs that a command line names: by ID, or by files that hold them;
// of no words the one that began last.
func (a *app) findRuns(c *cobra.Command, words []string) (all []*evidence.Run, err error) {
	var m *machine
	store := func() (*machine, error) {
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
		runs, err := m.runs().All()
		if len(runs) > 0 {
			if err != nil {
				a.screen.Say("left out: %v", err) // it may have been the last one
			}
			return runs[len(runs)-1:], nil
		}
		if err != nil {
			return nil, damaged(m.unread(err))
		}
		return nil, ui.Hinted(ui.Failed, errors.New("nothing was measured yet"), "fettle prove and fettle bench do it")
	}
	for _, word := range words {
		if strings.TrimSpace(word) == "" {
			return nil, ui.Hinted(ui.Usage, errors.New("the name of a run is empty"), "want the ID of a run or its beginning, which fettle runs list shows, or a file with records")
		}
		if filepath.Ext(word) == ".json" || filepath.Base(word) != word {
			runs, err := evidence.ReadFile(word)
			if err != nil {
				return nil, damaged(err)
			}
			all = append(all, runs...)
			continue
		}
		m, err := store()
		if err != nil {
			return nil, err
		}
		r, err := m.findRun(word)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
