package logscli

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/logs"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// CSV is the format for spreadsheets.
const CSV ui.Format = "csv"

// Formats are the output formats that only logs has.
const Formats = string(CSV + " " + cliutil.OpenMetrics)

// partKind describes the files of --save.
const partKind = "part of fettle logs"

// MaySave returns an error if the file of --save must not be written.
func (o Options) MaySave() error {
	return cliutil.MayReplace("--save", o.Save, logs.PartBegins, partKind)
}

// Keep writes the result to the file of --save.
func (o Options) Keep(r *logs.Result) error {
	if o.Save == "" {
		return nil
	}
	var text bytes.Buffer
	if err := r.Save(&text); err != nil {
		return err
	}
	if err := cliutil.Replace(o.Save, text.Bytes(), logs.PartBegins, partKind); err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}

// Finish saves and prints the result of a reading. err is why it may be incomplete, or nil.
func (o Options) Finish(s *ui.Screen, r *logs.Result, err error) error {
	o.Another(r)
	// Save the result of a truncated log: the next call continues after the read part.
	err = errors.Join(err, o.Keep(r))
	rep := r.Report(o.Sort, o.Top)
	if s.Format == CSV || s.Format == cliutil.OpenMetrics { // these formats have no field for messages
		for _, l := range logs.NoUnit(rep.Logs) {
			s.SayOnce(l)
		}
	}
	return Show(s, rep, o.Shown, err)
}

// NoRequest returns the error for logs without a line that could be read.
func NoRequest(r *logs.Result) error {
	if !r.Nothing() {
		return nil
	}
	return fmt.Errorf("no line could be read as a request (%s)", internaltext.CountPlural(r.Unread.Lines, "line", "lines"))
}

// Show prints a report. err is why it may be incomplete, or nil.
func Show(s *ui.Screen, r *logs.Report, shown logs.Shown, err error) error {
	if u := r.Unread; u.ReadWith != "" && s.Format != ui.Table && s.Format != ui.Markdown {
		s.SayOnce(fmt.Sprintf("%s not read; they look like %s. To read them: %s", internaltext.CountPlural(u.Lines, "line", "lines"), u.LooksLike, u.ReadWith))
	}
	table := func(s *ui.Screen, r *logs.Report) { logs.Print(s, r, shown) }
	return InForm(s, r, Forms[*logs.Report]{table, logs.Page, logs.CSV, logs.OpenMetrics}, err)
}

// Forms holds functions that write a logs document in formats other than JSON and YAML.
type Forms[T any] struct {
	Table, Page      func(*ui.Screen, T)
	CSV, OpenMetrics func(io.Writer, T) error
}

// InForm prints a logs document in the selected format. It returns err, or the error of printing.
func InForm[T any](s *ui.Screen, doc T, forms Forms[T], err error) error {
	if cliutil.ForPrograms(s) {
		return cliutil.Result(s, doc, err)
	}
	switch s.Format {
	case CSV:
		return errors.Join(err, forms.CSV(s.Out, doc))
	case cliutil.OpenMetrics:
		return errors.Join(err, forms.OpenMetrics(s.Out, doc))
	case ui.HTML:
		forms.Page(s, doc)
		return err
	}
	forms.Table(s, doc)
	return err
}
