package logs

import (
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Report is the result of logs in JSON form.
type Report struct {
	Schema   string      `json:"schema"` // fettle/logs/v1
	Headline ui.Headline `json:"headline"`
	Logs     []LogRead   `json:"logs"`
	// NotRead lists unreadable files of a directory that may contain requests.
	NotRead []source.NotRead `json:"not_read,omitempty"`
	// Copies lists files that repeat the lines of another file; they do not count.
	Copies   []source.NotRead `json:"copies,omitempty"`
	Requests uint64           `json:"requests"`
	First    *time.Time       `json:"first,omitempty"` // arrival of the first request; Last is the arrival of the last one
	Last     *time.Time       `json:"last,omitempty"`
	SpanS    float64          `json:"span_s"`
	All      Group            `json:"all"`
	// LeftOut is the number of requests left out by --where, --since or --until.
	LeftOut uint64 `json:"left_out"`
	// OtherLines is the number of lines of the format that are not requests.
	OtherLines uint64      `json:"other_lines"`
	Unread     UnreadLines `json:"unread"`
	Unended    int         `json:"unended,omitempty"` // requests without an end
	Unbegun    int         `json:"unbegun,omitempty"` // requests without a beginning
	WentTo     *Group      `json:"went_to,omitempty"` // the group of the first grouping with the most time
	// MostAsked is the group of the first grouping with the most requests. It is set only if
	// it is not WentTo and has at least half of all requests: avoiding frequent requests pays
	// even if they are short.
	MostAsked *Group     `json:"most_asked,omitempty"`
	By        []Grouping `json:"by"`
	Busy      Busy       `json:"busy"`
	Hours     []Group    `json:"hours"`
	Slowest   []SlowLine `json:"slowest"`

	where  string // the condition on requests
	merged bool   // loaded from files that Save wrote
	slots  *slots // nil unless requested
}

// LogRead describes a log and how it was read.
type LogRead struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	Format     string `json:"format"`
	FormatText string `json:"format_text"` // in the syntax of the server's configuration
	Why        string `json:"why"`
	// Guessed describes the properties of the format that the lines do not prove, or is empty.
	Guessed string `json:"guessed,omitempty"`
	// Duration is the source of a request's duration in the format, and DurationUnit its unit.
	// Both are empty if the format has no duration.
	Duration     string `json:"duration,omitempty"`
	DurationUnit string `json:"duration_unit,omitempty"`
	// UnitUnknown names a duration in JSON lines that is not read because its unit is unknown.
	UnitUnknown string `json:"unit_unknown,omitempty"`
	// TimeIsEnd reports whether a line's time is that of the response, not of the request.
	TimeIsEnd bool `json:"time_is_end"`
	NoZone    bool `json:"no_zone"`           // times without a zone, read as UTC
	NoTime    bool `json:"no_time,omitempty"` // the lines have no time
	// Cut is why the log could not be read to its end. The part read counts.
	Cut string `json:"cut,omitempty"`
	// ZeroBytes is the number of zero bytes around lines. They are skipped: the log was
	// truncated while its server kept writing, or padded.
	ZeroBytes int64 `json:"zero_bytes,omitempty"`
	// Since and Until limit the requests that count; they are absent without a limit.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// UnreadLines are lines that do not match their log's format.
type UnreadLines struct {
	Lines    uint64       `json:"lines"`
	TooLong  uint64       `json:"too_long"` // lines longer than 1 MiB
	Examples []UnreadLine `json:"examples"`
	// LooksLike names the detected format of these lines, if any. Format is the format's
	// --format, and ReadWith the command that reads the lines.
	LooksLike string `json:"looks_like,omitempty"`
	Format    string `json:"format,omitempty"`
	ReadWith  string `json:"read_with,omitempty"`
}

// UnreadLine is an example of an unread line.
type UnreadLine struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // unknown in a followed log
	Text string `json:"text"`
}

// Grouping holds the groups by one or more dimensions.
type Grouping struct {
	By     []string `json:"by"`
	Groups int      `json:"groups"` // total number of groups; Top has the first ones
	Top    []Group  `json:"top"`
	Folded *Group   `json:"folded,omitempty"` // sum of the groups above the limit
	// Missing is what a group of Top may lack at most, if there were more groups than the limit.
	Missing *Missing `json:"missing,omitempty"`
}

// Group holds the figures of a group of requests. Unknown figures are absent.
type Group struct {
	Key        []string           `json:"key"`
	Count      uint64             `json:"count"`
	RatePerS   *float64           `json:"rate_per_s,omitempty"` // absent if all requests came at the same time
	Errors     uint32             `json:"errors"`               // status 500 and above
	Untimed    uint32             `json:"untimed,omitempty"`    // requests without a duration
	TotalS     float64            `json:"total_s"`
	Share      *float64           `json:"share,omitempty"` // of the total time of all requests
	MeanS      *float64           `json:"mean_s,omitempty"`
	DeviationS *float64           `json:"deviation_s,omitempty"`
	MinS       *float64           `json:"min_s,omitempty"`
	MaxS       *float64           `json:"max_s,omitempty"`
	QuantilesS map[string]float64 `json:"quantiles_s,omitempty"` // p50, p90, p95, p99, p99.9; each within 0.8 %
}

// Busy holds figures about the number of requests in progress.
type Busy struct {
	StepS  float64    `json:"step_s"` // resolution in seconds
	Mean   float64    `json:"mean"`   // from the first request's step to the last request's step
	Most   float64    `json:"most"`   // highest mean of one step
	MostAt *time.Time `json:"most_at,omitempty"`
	Minute *Minute    `json:"busiest_minute,omitempty"` // with the most requests
	// Minutes covers the time from the first request to the last one. The intervals of a long
	// log are longer than a minute.
	Minutes []Minute `json:"minutes"`
	MinuteS float64  `json:"minute_s"` // length of these intervals
}

// Minute holds the requests of an interval of time.
type Minute struct {
	Start    time.Time `json:"start"`
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"`
	Busy     float64   `json:"busy"`
}

// SlowLine is one of the slowest requests.
type SlowLine struct {
	Time  time.Time `json:"time,omitzero"` // absent if the log has no times
	TookS float64   `json:"took_s"`
	Line  string    `json:"line"`
}

// LogOf describes a log and its format. cut is why reading ended early, or nil.
func LogOf(l source.Log, f *logformat.Format, cut error) LogRead {
	read := LogRead{Path: l.Path, SizeBytes: l.Size, Format: f.Name, FormatText: f.Source, Why: f.Why, Guessed: f.Guessed, UnitUnknown: f.UnitUnknown, TimeIsEnd: f.TimeIsEnd, NoZone: f.NoZone, NoTime: f.Field(logformat.FieldTime) < 0}
	if d := f.Field(logformat.FieldDuration); d >= 0 {
		read.Duration, read.DurationUnit = f.Fields[d].Source, logformat.UnitName(f.Fields[d].Unit)
	}
	if cut != nil {
		read.Cut = text.PlainMessage(cut.Error())
	}
	return read
}
