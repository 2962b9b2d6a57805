package scenario

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/mqtt"
)

// maxKept is the maximum number of messages that a host keeps until it receives them.
const maxKept = 1000

// session is a host's connection to a broker. The messages that have arrived but are not yet
// received by a step are kept.
type session struct {
	target *target
	*mqtt.Session
	kept []*mqtt.Message
}

// message runs an MQTT step.
func (h *virtual) message(s *step, o *outcome) {
	err := h.exchangeMessages(s, o)
	if o.end = h.now(); err == nil || o.cause != "" {
		return
	}
	if cause := causeOf(err); cause == notAllowed {
		o.fail(cause, err)
		return
	}
	o.fail(mqtt.KindOf(err), err)
	o.waited = o.cause == string(engine.Timeout)
}

func (h *virtual) exchangeMessages(s *step, o *outcome) error {
	a := s.mqtt
	until := h.begin.Add(h.now() + h.plan.Timeout)
	one, err := h.session(a, until)
	if err != nil {
		return err
	}
	var topics []string
	for _, t := range a.subscribe {
		topics = append(topics, t.text(h.values))
	}
	switch {
	case len(topics) > 0:
		err = one.Subscribe(until, topics...)
	case a.publish != nil:
		payload := []byte{}
		if a.payload != nil {
			payload = a.payload.append(nil, h.values)
		}
		err = one.Publish(until, a.publish.text(h.values), payload)
	default:
		until = h.begin.Add(h.now() + a.within)
		var m *mqtt.Message
		if m, err = one.receive(a.receive.text(h.values), until); err == nil {
			o.in, o.end = int64(len(m.Payload)), h.now()
			h.judge(s, &answer{body: m.Payload}, o)
			return nil
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		h.forget(one)
	}
	return err
}

// receive returns the first message to a topic. Others are kept.
func (s *session) receive(topic string, until time.Time) (*mqtt.Message, error) {
	for i, m := range s.kept {
		if matches(topic, m.Topic) {
			s.kept = append(s.kept[:i], s.kept[i+1:]...)
			return m, nil
		}
	}
	for {
		m, err := s.NextUntil(until)
		if err != nil {
			return nil, err
		}
		if err := s.Acknowledge(m, until); err != nil {
			return nil, err
		}
		if matches(topic, m.Topic) {
			return m, nil
		}
		s.keep(m)
	}
}

func (s *session) keep(m *mqtt.Message) {
	if len(s.kept) < maxKept {
		s.kept = append(s.kept, m)
	}
}

// matches reports whether a topic matches a filter with + and # (MQTT 3.1.1, 4.7).
func matches(filter, topic string) bool {
	want, got := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, level := range want {
		switch {
		case level == "#":
			return true
		case i >= len(got) || level != "+" && level != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}

// session returns the host's connection to the broker of a step; without one, the last.
func (h *virtual) session(a *mqttAction, until time.Time) (*session, error) {
	if a.server == nil {
		if len(h.sessions) == 0 {
			return nil, engine.ProtocolError("no broker: the first MQTT step of a host needs server")
		}
		return h.sessions[len(h.sessions)-1], nil
	}
	origin := a.server.text(h.values)
	for _, s := range h.sessions {
		if s.target.origin == origin {
			return s, nil
		}
	}
	t, err := h.find(h.ctx, origin)
	switch {
	case err != nil:
		return nil, err
	case !t.mqtt:
		return nil, engine.ProtocolError(fmt.Sprintf("%s: not a broker; want mqtt:// or mqtts://", origin))
	}
	// Without a keep-alive time the broker does not end a session that waits for its step.
	opened, err := mqtt.Open(h.dialer(t), h.values[nameSlot].text, 0, until)
	if err != nil {
		return nil, err
	}
	s := &session{target: t, Session: opened}
	opened.Early = s.keep
	h.sessions = append(h.sessions, s)
	return s, nil
}

// forget closes a session that has failed.
func (h *virtual) forget(one *session) {
	one.Close()
	for i, s := range h.sessions {
		if s == one {
			h.sessions = append(h.sessions[:i], h.sessions[i+1:]...)
			return
		}
	}
}

// leave disconnects the host from its brokers.
func (h *virtual) leave() {
	for _, s := range h.sessions {
		if h.ctx.Err() == nil {
			s.Leave(h.begin.Add(h.now()))
		}
		s.Close()
	}
	h.sessions = nil
}
