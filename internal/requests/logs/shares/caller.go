package shares

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/ui"
)

// Session is a connection to a worker's standard input and output. An error of Line says why the
// worker is gone.
type Session interface {
	io.Writer
	Line() ([]byte, error)
}

// MaxLine is the maximum size of a worker's message, in bytes.
const MaxLine = maxLine

// Caller is the caller's side of a worker.
type Caller struct {
	Session
	// Alive, if not nil, is called for each message, with the number of bytes that were read.
	Alive func(done int64)
}

func (c *Caller) send(m toWorker) error {
	m.Schema = Schema
	line, err := json.Marshal(m)
	if err == nil {
		_, err = c.Write(append(line, '\n'))
	}
	return err
}

// next returns the next message that is not only a sign of life.
func (c *Caller) next() (m fromWorker, err error) {
	for {
		line, err := c.Line()
		if err != nil {
			return m, err
		}
		m = fromWorker{}
		if err := json.Unmarshal(line, &m); err != nil {
			return m, fmt.Errorf("not a message of %s: %.200q", Schema, line)
		}
		if c.Alive != nil {
			c.Alive(m.Done)
		}
		switch {
		case m.Error != nil:
			return m, &RefusedError{&ui.Error{Code: m.Error.Code, Err: errors.New(m.Error.Text), Hint: m.Error.Hint, Remedy: m.Error.Remedy}}
		case m.Plan != nil, m.Part != nil, m.End:
			return m, nil
		}
	}
}

// RefusedError is an error of a request or of its logs. Another worker would have it too.
type RefusedError struct{ error }

// Unwrap returns the worker's error.
func (r *RefusedError) Unwrap() error { return r.error }

// Greet tells the worker that it has a caller.
func (c *Caller) Greet() error { return c.send(toWorker{}) }

// Look asks for the plan of a request.
func (c *Caller) Look(q Request) (*Plan, error) {
	if err := c.send(toWorker{Look: &q}); err != nil {
		return nil, err
	}
	m, err := c.next()
	if err == nil && m.Plan == nil {
		err = errors.New("the worker sent no plan")
	}
	return m.Plan, err
}

// Read asks for the result of a task.
func (c *Caller) Read(t Task) (*logs.Result, error) {
	if err := c.send(toWorker{Read: &t}); err != nil {
		return nil, err
	}
	pieces, done := make(chan []byte), make(chan struct{})
	var r *logs.Result
	var broken error
	go func() {
		defer close(done)
		r, broken = readPart(pieces)
	}()
	for {
		m, err := c.next()
		if err != nil || m.End {
			close(pieces)
			<-done
			if err == nil {
				err = broken
			}
			return r, err
		}
		if m.Part != nil {
			pieces <- m.Part
		}
	}
}

// Taken tells the worker that its result has arrived, or that none is needed.
func (c *Caller) Taken() error { return c.send(toWorker{Taken: true}) }
