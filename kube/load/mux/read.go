package mux

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"
)

// read processes frames from the server until the connection ends.
func (c *conn) read() {
	for {
		f, err := c.fr.ReadFrame()
		var of http2.StreamError
		if errors.As(err, &of) {
			if s := c.stream(of.StreamID); s != nil {
				c.cancel(s, of.Code)
			}
			continue
		}
		if err == nil {
			c.heard.Store(time.Now().UnixNano())
			err = c.frame(f)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// stream returns the pending stream with an ID, or nil.
func (c *conn) stream(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// frame processes one frame. An error ends the connection.
func (c *conn) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if s := c.stream(f.StreamID); s != nil {
			return c.onHeader(s, f)
		}
	case *http2.DataFrame:
		return c.onData(f)
	case *http2.RSTStreamFrame:
		if s := c.stream(f.StreamID); s != nil {
			err := error(http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode})
			if s.status != 0 && f.ErrCode == http2.ErrCodeNo {
				err = nil // the server needs no more of the request, and has answered
			}
			c.finish(s, err)
		}
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindow(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.lock()
			defer c.unlock()
			return c.fr.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		c.onGoAway(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol) // pushes were disabled in the settings
	}
	return nil
}

func (c *conn) onHeader(s *stream, f *http2.MetaHeadersFrame) error {
	if s.status == 0 {
		status, err := strconv.Atoi(f.PseudoValue("status"))
		switch {
		case err != nil || status < 100 || status > 999 || f.Truncated:
			c.cancel(s, http2.ErrCodeProtocol)
			return nil
		case status < 200 && !f.StreamEnded():
			return nil // more header frames follow
		}
		s.status, s.header = status, http.Header{}
		for _, field := range f.RegularFields() {
			switch field.Name {
			case "content-type", "retry-after", "warning":
				s.header.Add(field.Name, field.Value)
			case "content-length":
				if n, err := strconv.Atoi(field.Value); err == nil && n > 0 && n <= MaxAnswer {
					s.body = make([]byte, 0, n)
				}
			}
		}
	}
	if f.StreamEnded() {
		c.finish(s, nil)
	}
	return nil
}

func (c *conn) onData(f *http2.DataFrame) error {
	// Padding counts too, and data for canceled streams.
	if c.taken += int(f.Length); c.taken > connWindow/2 {
		c.lock()
		err := c.fr.WriteWindowUpdate(0, uint32(c.taken))
		c.unlock()
		if c.taken = 0; err != nil {
			return err
		}
	}
	s := c.stream(f.StreamID)
	switch {
	case s == nil:
		return nil
	case s.status == 0:
		c.cancel(s, http2.ErrCodeProtocol)
		return nil
	case len(s.body)+len(f.Data()) > MaxAnswer:
		c.lock()
		defer c.unlock()
		if c.finish(s, fmt.Errorf("the answer is larger than %d MiB", MaxAnswer>>20)) {
			return c.fr.WriteRSTStream(f.StreamID, http2.ErrCodeCancel)
		}
		return nil
	}
	s.body = append(s.body, f.Data()...)
	if f.StreamEnded() {
		c.finish(s, nil)
	}
	return nil
}

func (c *conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.lock()
	defer c.unlock()
	c.mu.Lock()
	if !c.settled {
		c.settled, c.most = true, firstStreams
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			c.most = int(min(s.Val, math.MaxInt32))
		case http2.SettingInitialWindowSize:
			for _, x := range c.streams {
				x.window += int64(s.Val) - c.initial // may become negative (RFC 9113, 6.9.2)
			}
			c.initial = int64(s.Val)
		case http2.SettingMaxFrameSize:
			c.maxFrame = int(s.Val)
		case http2.SettingHeaderTableSize:
			c.encoder.SetMaxDynamicTableSizeLimit(s.Val)
			c.encoder.SetMaxDynamicTableSize(min(s.Val, 4096))
		}
		return nil
	})
	c.changed.Broadcast()
	c.mu.Unlock()
	return errors.Join(err, c.fr.WriteSettingsAck())
}

func (c *conn) onWindow(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	window := &c.window
	if f.StreamID != 0 {
		s := c.streams[f.StreamID]
		if s == nil {
			return nil
		}
		window = &s.window
	}
	if *window += int64(f.Increment); *window > math.MaxInt32 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.changed.Broadcast()
	return nil
}

// onGoAway ends the streams that the server will not process; others complete.
func (c *conn) onGoAway(f *http2.GoAwayFrame) {
	c.mu.Lock()
	c.away = true
	var gone []*stream
	for id, s := range c.streams {
		if id > f.LastStreamID {
			gone = append(gone, s)
		}
	}
	none := len(c.streams) == 0
	c.changed.Broadcast()
	c.mu.Unlock()
	for _, s := range gone {
		c.finish(s, errAway)
	}
	if none {
		_ = c.net.Close()
	}
}
