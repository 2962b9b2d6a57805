package logs

import (
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
)

// Report is the JSON form of what logs say.
type Report struct {
	Schema string    `json:"schema"` // fettle/logs/v1
	Logs   []LogRead `json:"logs"`
	// NotRead are files of a directory that may have requests too, and could not be read.
	NotRead []source.NotRead `json:"not_read,omitempty"`
	// Copies are files whose lines another one has: they do not count.
	Copies   []source.NotRead `json:"copies,omitempty"`
	Requests uint64           `json:"requests"`
	First    *time.Time       `json:"first,omitempty"` // when the first request came, and the last
	Last     *time.Time       `json:"last,omitempty"`
	SpanS    float64          `json:"span_s"`
	All      Group            `json:"all"`
	// LeftOut are requests that --where, --since or --until left out.
	LeftOut uint64 `json:"left_out"`
	// OtherLines are lines of the format that are no requests.
	OtherLines uint64      `json:"other_lines"`
	Unread     UnreadLines `json:"unread"`
	Unended    int         `json:"unended,omitempty"` // requests that began and did not end
	Unbegun    int         `json:"unbegun,omitempty"` // requests whose beginning is in no log
	WentTo     *Group      `json:"went_to,omitempty"` // the group of the first grouping that took most time
	// MostAsked is the group of the first grouping with the most requests, where that is
	// another than WentTo and has at least half of all: what is asked for so often can be
	// saved, however little each takes.
	MostAsked *Group     `json:"most_asked,omitempty"`
	By        []Grouping `json:"by"`
	Busy      Busy       `json:"busy"`
	Hours     []Group    `json:"hours"`
	Slowest   []SlowLine `json:"slowest"`
}

// LogRead is a log and how it was read.
type LogRead struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	Format     string `json:"format"`
	FormatText string `json:"format_text"` // as the server's configuration has it
	Why        string `json:"why"`
	// Guessed is what of the format the lines do not say; absent where they say all.
	Guessed string `json:"guessed,omitempty"`
	// Duration is the field of the format that says how long a request took, and its
	// unit; without one nothing is said of time.
	Duration     string `json:"duration,omitempty"`
	DurationUnit string `json:"duration_unit,omitempty"`
	// UnitUnknown is a member of JSON lines that is a duration whose unit nothing says: it
	// is not read.
	UnitUnknown string `json:"unit_unknown,omitempty"`
	// TimeIsEnd says that the lines have the time of the answer.
	TimeIsEnd bool `json:"time_is_end"`
	NoZone    bool `json:"no_zone"`           // times without a zone, read as UTC
	NoTime    bool `json:"no_time,omitempty"` // the lines do not say when
	// Cut is why the log could not be read to its end. What came before counts.
	Cut string `json:"cut,omitempty"`
	// ZeroBytes are bytes before, between and behind its lines that are zero, and were skipped:
	// a log truncated while its server writes on, or a padded file.
	ZeroBytes int64 `json:"zero_bytes,omitempty"`
	// Since and Until are the time whose requests alone count, as it was asked for; absent
	// without a limit.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// UnreadLines are lines that are not of their log's format.
type UnreadLines struct {
	Lines    uint64       `json:"lines"`
	TooLong  uint64       `json:"too_long"` // of them, longer than a MiB
	Examples []UnreadLine `json:"examples"`
}

// UnreadLine is one of them.
type UnreadLine struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // of a log that is followed it is not known
	Text string `json:"text"`
}

// Grouping is the requests by one dimension or several.
type Grouping struct {
	By     []string `json:"by"`
	Groups int      `json:"groups"` // how many there are; Top are the first of them
	Top    []Group  `json:"top"`
	Folded *Group   `json:"folded,omitempty"` // what came beyond the most groups
}

// Group is what is known of a group of requests. What is absent no line says.
type Group struct {
	Key        []string           `json:"key"`
	Count      uint64             `json:"count"`
	RatePerS   *float64           `json:"rate_per_s,omitempty"` // absent where all requests came at one time
	Errors     uint32             `json:"errors"`               // status 500 and above
	Untimed    uint32             `json:"untimed,omitempty"`    // requests without a duration
	TotalS     float64            `json:"total_s"`
	Share      *float64           `json:"share,omitempty"` // of the time of all requests
	MeanS      *float64           `json:"mean_s,omitempty"`
	DeviationS *float64           `json:"deviation_s,omitempty"`
	MinS       *float64           `json:"min_s,omitempty"`
	MaxS       *float64           `json:"max_s,omitempty"`
	QuantilesS map[string]float64 `json:"quantiles_s,omitempty"` // p50, p90, p95, p99, p99.9; each within 0.8 %
}

// Busy says how many requests were at work at a time.
type Busy struct {
	StepS  float64    `json:"step_s"` // of what follows: the shortest stretch of time that is kept apart
	Mean   float64    `json:"mean"`   // from the step in which the first request came to that in which the last did
	Most   float64    `json:"most"`   // in one step, on average
	MostAt *time.Time `json:"most_at,omitempty"`
	Minute *Minute    `json:"busiest_minute,omitempty"` // in which most requests came
	// Minutes are those from that in which the first request came to that in which the last
	// did; longer stretches of a long log.
	Minutes []Minute `json:"minutes"`
	MinuteS float64  `json:"minute_s"` // how long these are
}

// Minute is a stretch of time.
type Minute struct {
	Start    time.Time `json:"start"`
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"`
	Busy     float64   `json:"busy"`
}

// SlowLine is one of the slowest requests.
type SlowLine struct {
	Time  time.Time `json:"time,omitzero"` // absent of logs that do not say when
	TookS float64   `json:"took_s"`
	Line  string    `json:"line"`
}

// LogOf is a log and its format; cut is why it could not be read to its end, or nil.
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
