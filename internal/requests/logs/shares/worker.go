package shares

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// toWorker is a message to a worker. Schema is always set; at most one of the others is.
type toWorker struct {
	Schema string   `json:"schema"`
	Look   *Request `json:"look,omitempty"`
	Read   *Task    `json:"read,omitempty"`
	// Taken reports that the caller has the result, or wants none: the worker has done its work.
	Taken bool `json:"taken,omitempty"`
}

// fromWorker is a message from a worker. A message without fields shows that the worker is alive.
type fromWorker struct {
	Plan *Plan `json:"plan,omitempty"`
	// Done is the number of bytes read so far, on disk.
	Done int64 `json:"done,omitempty"`
	// Part is the next piece of the result, as logs.Result.Save writes it. End follows the last one.
	Part  []byte   `json:"part,omitempty"`
	End   bool     `json:"end,omitempty"`
	Error *Failure `json:"error,omitempty"`
}

// Failure is an error that another worker would have too.
type Failure struct {
	Text   string     `json:"text"`
	Code   int        `json:"code"` // exit code
	Hint   string     `json:"hint,omitempty"`
	Remedy *ui.Remedy `json:"remedy,omitempty"`
}

// failureOf returns the failure that describes an error.
func failureOf(err error) *Failure {
	hint, remedy := ui.Advice(err)
	return &Failure{Text: text.PlainMessage(err.Error()), Code: ui.Code(err), Hint: hint, Remedy: remedy}
}

// beat is the time between two messages of a worker.
const beat = time.Second

// partSize is the maximum size of a piece of a result, in bytes.
const partSize = 512 << 10

// worker serves one caller.
type worker struct {
	mu   sync.Mutex
	out  *json.Encoder
	done atomic.Int64
	set  atomic.Pointer[source.Set] // what is being read
}

func (w *worker) say(m fromWorker) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(m)
}

// Serve executes the messages of a caller until it has taken the result. If no message arrives
// within a time, no caller needs this worker, and Serve returns nil. An input that ends earlier is
// an error: the caller, or the connection to it, is lost.
func Serve(ctx context.Context, in io.Reader, out io.Writer, within time.Duration) error {
	work, end := context.WithCancel(ctx)
	defer end()
	w := &worker{out: json.NewEncoder(out)}
	messages, broken := make(chan toWorker), make(chan error, 1)
	go func() { broken <- receive(work, in, messages, end) }()
	late := time.NewTimer(within)
	defer late.Stop()
	for first := true; ; first = false {
		select {
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case m := <-messages:
			late.Stop()
			if first {
				go w.live(work)
			}
			if m.Taken {
				return nil
			}
			if err := w.answer(work, m); err != nil && ctx.Err() == nil {
				return <-broken // the input ends with the connection
			}
		}
	}
}

var errOtherCaller = errors.New("not a message of " + Schema + "; only kubectl fettle logs starts this command")

// receive passes messages on. It returns at the end of the input, and ends the work in progress.
func receive(ctx context.Context, in io.Reader, messages chan<- toWorker, end func()) error {
	defer end()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var m toWorker
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return errOtherCaller
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errOtherCaller
	}
	return errors.Join(errors.New("the connection to the caller is lost"), lines.Err())
}

// live reports the progress until ctx ends.
func (w *worker) live(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if set := w.set.Load(); set != nil {
				done, _ := set.Progress()
				w.done.Store(done)
			}
			if w.say(fromWorker{Done: w.done.Load()}) != nil {
				return
			}
		}
	}
}

// answer executes a message. An error means that the caller cannot be reached.
func (w *worker) answer(ctx context.Context, m toWorker) error {
	var err error
	switch {
	case m.Schema != Schema:
		err = ui.Hinted(ui.Failed, fmt.Errorf("the image has another version of fettle: it speaks %s, kubectl fettle %s", Schema, m.Schema), "use an image of the same version as kubectl fettle")
	case m.Look != nil:
		var p *Plan
		if p, err = m.Look.plan(ctx); err == nil {
			return w.say(fromWorker{Plan: p})
		}
	case m.Read != nil:
		var r *logs.Result
		if r, err = m.Read.read(ctx, w.set.Store); err == nil {
			if err = r.Save(partWriter(func(p []byte) error { return w.say(fromWorker{Part: p}) })); err != nil {
				return err
			}
			return w.say(fromWorker{End: true})
		}
	}
	if err != nil && ctx.Err() == nil {
		return w.say(fromWorker{Error: failureOf(err)})
	}
	return ctx.Err()
}

// partWriter passes what is written on in pieces.
type partWriter func([]byte) error

func (f partWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		k := min(len(p)-n, partSize)
		err = f(p[n : n+k])
		n += k
	}
	return n, err
}

// opened are logs with their formats.
type opened struct {
	set     *source.Set
	formats []*logformat.Format
	options logs.Options
}

// open finds logs and their formats.
func (q *Request) open(paths []string, say func(string)) (*opened, error) {
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		return nil, ui.Hinted(ui.Usage, err, "name files by their paths from the root of the volume; . is all of its files")
	}
	o := &opened{set: source.NewSet(found), options: logs.Options{By: q.By, Percentiles: q.Percentiles, Groups: q.Groups, Workers: 1, Slowest: q.Slowest, Where: q.Where, Since: q.Since, Until: q.Until}}
	f := formats.Finder{Format: q.Format, Unit: q.Unit, Duration: q.Duration, Command: q.Command, Say: say}
	if o.formats, err = f.Find(o.set); err != nil {
		return nil, denied(err)
	}
	if len(q.Routes) > 0 || q.Learn {
		if o.options.Routes, err = logs.ParseRoutes(q.Routes); err != nil {
			return nil, err
		}
	}
	if q.Learn {
		if err := logs.Learn(o.options.Routes, o.set, o.formats); err != nil {
			return nil, err
		}
	}
	if len(o.options.By) == 0 {
		o.options.By, err = logs.Default(o.options.Routes, o.set, o.formats)
	}
	return o, err
}

// denied says what to do about a log that this user may not read.
func denied(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return ui.Hinted(ui.Failed, fmt.Errorf("%w (the pods read as user %d)", err, os.Getuid()), "--user-id UID reads as the owner of the files; ls -ln in a pod that mounts the volume shows it")
}

// plan lists the logs, and tests whether the request fits them.
func (q *Request) plan(ctx context.Context) (*Plan, error) {
	p := &Plan{}
	o, err := q.open(q.Paths, func(text string) { p.Said = append(p.Said, text) })
	if err != nil {
		return nil, err
	}
	for i, l := range o.set.Logs {
		packed, err := o.set.Packed(i)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(l.Path) {
			return nil, ui.Hinted(ui.Refused, fmt.Errorf("%q: the name of this file is not UTF-8", l.Path), "rename it, or name the other files: kubectl fettle logs FILE...")
		}
		now, err := state(l.Path)
		if err != nil {
			return nil, err
		}
		now.Packed, now.Whole = packed, packed || o.formats[i].Joined() || o.formats[i].PartDetector() != nil
		p.Logs = append(p.Logs, *now)
	}
	p.By, p.NotRead, p.Copies = o.options.By, o.set.NotRead, o.set.Copies
	o.set.Only(make([]source.Piece, len(p.Logs)))
	if _, err := logs.Read(ctx, o.set, o.formats, o.options); err != nil {
		return nil, unfit(err)
	}
	return p, nil
}

// unfit sets the exit code of an error about a request that does not fit the logs.
func unfit(err error) error {
	if errors.As(err, new(logs.Unfit)) {
		return ui.Exit(ui.Usage, err)
	}
	return err
}

// state returns the size and the time of the last change of a log.
func state(path string) (*Log, error) {
	st, err := host.Live().Files.Stat(path)
	if err != nil {
		return nil, err
	}
	return &Log{Path: path, Size: st.Size(), Modified: st.ModTime().UTC()}, nil
}

// read reads the share of a task. use is called with the set that it reads.
func (t *Task) read(ctx context.Context, use func(*source.Set)) (*logs.Result, error) {
	if err := t.unchanged(); err != nil {
		return nil, err
	}
	q := t.Request
	q.By = t.Plan.By
	var paths []string
	for _, l := range t.Plan.Logs {
		paths = append(paths, l.Path)
	}
	o, err := q.open(paths, nil)
	if err == nil && len(o.set.Logs) != len(paths) {
		err = errors.New("the logs changed since the plan was made")
	}
	if err != nil {
		return nil, err
	}
	o.set.Only(t.Share)
	use(o.set)
	r, err := logs.Read(ctx, o.set, o.formats, o.options)
	if r == nil || ctx.Err() != nil {
		return nil, unfit(err)
	}
	for i, l := range o.set.Logs {
		// A damaged compressed log counts up to the damage, as with one process.
		if cut := o.set.Cut(i); cut != nil && !t.Plan.Logs[i].Packed {
			return nil, fmt.Errorf("%s: %w", l.Path, cut)
		}
	}
	if err := t.unchanged(); err != nil {
		return nil, err
	}
	return r, exact(r)
}

// unchanged returns an error if a log of the share is not as it was when the plan was made.
func (t *Task) unchanged() error {
	for i, was := range t.Plan.Logs {
		if t.Share[i].From >= t.Share[i].To {
			continue
		}
		now, err := state(was.Path)
		why := ""
		switch {
		case host.NotFound(err):
			why = "was removed or renamed"
		case err != nil:
			return err
		case now.Size > was.Size:
			why = text.Sprintf("grew by %s", text.Count(now.Size-was.Size, "byte"))
		case now.Size < was.Size:
			why = text.Sprintf("is %s shorter", text.Count(was.Size-now.Size, "byte"))
		case !now.Modified.Equal(was.Modified):
			why = "was written"
		default:
			continue
		}
		return &ui.Error{Code: ui.Refused, Err: fmt.Errorf("%s %s since the analysis began, so the pods would not read the same log", was.Path, why), Hint: "name files that are no longer written: rotated parts such as " + was.Path + ".1, or a copy", Remedy: &ui.Remedy{}}
	}
	return nil
}

// maxLine is the maximum size of a message, in bytes.
const maxLine = 64 << 20

// readPart loads a result from its pieces.
func readPart(pieces <-chan []byte) (*logs.Result, error) {
	r, err := logs.Load(&pieceReader{pieces: pieces})
	for range pieces { //nolint:revive // the sender must not wait
	}
	return r, err
}

// pieceReader reads the pieces of a result.
type pieceReader struct {
	pieces <-chan []byte
	now    bytes.Reader
}

func (p *pieceReader) Read(to []byte) (int, error) {
	for p.now.Len() == 0 {
		next, more := <-p.pieces
		if !more {
			return 0, io.EOF
		}
		p.now.Reset(next)
	}
	return p.now.Read(to)
}
