package ui

import (
	"encoding/json"
	"io"
	"time"

	"fettle.dev/fettle/internal/text"
)

// ForemanLine is the kind of a line in a ForemanReport.
type ForemanLine string

// The kinds of lines. The first three are Foreman's counters: it shows the host in error if
// something failed, and as pending if nothing failed but something is pending. Notes are not
// counted.
const (
	ForemanFailed  ForemanLine = "failed"
	ForemanPending ForemanLine = "pending"
	ForemanSkipped ForemanLine = "skipped"
	ForemanNote    ForemanLine = ""
)

// foremanLevels are the levels of lines, with the names of syslog.
var foremanLevels = map[ForemanLine]string{ForemanFailed: "err", ForemanPending: "warning", ForemanSkipped: "notice", ForemanNote: "notice"}

// ForemanReport is a config report: the body of POST /api/v2/config_reports in Foreman.
type ForemanReport struct {
	Host string `json:"host"` // Foreman creates a host that it does not know
	At   string `json:"reported_at"`
	// Status has all six counters of Foreman, which rejects any other.
	Status  map[ForemanLine]int `json:"status"`
	Metrics struct{}            `json:"metrics"`
	Logs    []foremanLog        `json:"logs"`
}

type foremanLog struct {
	Log struct {
		Level    string `json:"level"`
		Messages struct {
			Message string `json:"message"`
		} `json:"messages"`
		Sources struct {
			Source string `json:"source"`
		} `json:"sources"`
	} `json:"log"`
}

// NewForemanReport returns a report without lines.
func NewForemanReport(host string, at time.Time) *ForemanReport {
	status := map[ForemanLine]int{ForemanFailed: 0, ForemanSkipped: 0, ForemanPending: 0, "applied": 0, "restarted": 0, "failed_restarts": 0}
	return &ForemanReport{Host: host, At: at.UTC().Format("2006-01-02 15:04:05 UTC"), Status: status, Logs: []foremanLog{}}
}

// Add adds a line. Control characters are replaced: PostgreSQL, in which Foreman stores the text,
// rejects a NUL.
func (r *ForemanReport) Add(as ForemanLine, source, message string) {
	if as != ForemanNote {
		r.Status[as]++
	}
	var l foremanLog
	l.Log.Level, l.Log.Sources.Source, l.Log.Messages.Message = foremanLevels[as], text.PrintableLine(source), text.PrintableLine(message)
	r.Logs = append(r.Logs, l)
}

// Write writes the report as JSON.
func (r *ForemanReport) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]*ForemanReport{"config_report": r})
}
