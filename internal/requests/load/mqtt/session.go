// session is one client's connection to a broker of MQTT 3.1.1: it asks to be let
// in, subscribes, publishes, and takes what comes. A broker can say what it likes: the
// memory that a message takes is capped.

package mqtt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// Limits of what is taken from a broker.
const (
	maxPacket   = 64 << 10 // the body of a packet
	bufferBytes = 512      // a notification of a job is as long
)

// RefusedError is a CONNACK that does not let the client in (MQTT 3.1.1, 3.2.2.3).
type RefusedError struct{ Code byte }

func (e *RefusedError) Error() string {
	text := packets.ConnackReturnCodes[e.Code]
	if text == "" {
		text = "Unknown"
	}
	return fmt.Sprintf("the broker refused it: CONNACK %d (%s)", e.Code, text)
}

// ErrDenied is a subscription that the broker does not grant.
var ErrDenied = errors.New("the broker does not grant the subscription (SUBACK 0x80)")

// ErrClosed is a connection that the broker ended before it said CONNACK: what mosquitto
// does when it has no place for a client.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "the broker closed the connection before it said CONNACK" }
func (closedError) Unwrap() error { return engine.ErrNoAnswer }

// Message is what was published to a topic of the client.
type Message struct {
	Topic   string
	Payload []byte
	id      uint16
	quality byte
}

// Session is a connection that the broker has let in. One goroutine reads (Next); others
// may ping and close it meanwhile.
type Session struct {
	conn  net.Conn
	in    *bufio.Reader
	last  uint16 // packet identifier
	close sync.Once
	stop  func() bool // that the dialer's context closes it
}

// ConnectError is a connection that did not come to be: the broker was not reached.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// Open connects as a client of a name, with a clean session, as yggdrasil does. The
// session is closed when the dialer's context ends.
func Open(d *engine.Dialer, client string, keepAlive time.Duration, until time.Time) (*Session, error) {
	conn, err := d.Dial(until)
	if err != nil {
		return nil, &ConnectError{err}
	}
	s := over(conn)
	s.stop = context.AfterFunc(d.Context, func() { _ = conn.Close() })
	if err := s.enter(client, keepAlive, until); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func over(conn net.Conn) *Session {
	return &Session{conn: conn, in: bufio.NewReaderSize(conn, bufferBytes), stop: func() bool { return true }}
}

// enter says CONNECT and waits for CONNACK.
func (s *Session) enter(client string, keepAlive time.Duration, until time.Time) error {
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion = "MQTT", 4
	p.CleanSession, p.ClientIdentifier, p.Keepalive = true, client, uint16(keepAlive.Seconds())
	answer, err := s.ask(p, until, func(a packets.ControlPacket) bool { return true })
	switch {
	case errors.Is(err, engine.ErrNoAnswer), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrClosed
	case err != nil:
		return err
	}
	ack, ok := answer.(*packets.ConnackPacket)
	switch {
	case !ok:
		return engine.ProtocolError(fmt.Sprintf("%s in place of CONNACK", name(answer)))
	case ack.ReturnCode != packets.Accepted:
		return &RefusedError{ack.ReturnCode}
	}
	return nil
}

// ask sends a packet and waits for the answer to it. Messages that come before are taken
// and passed over: nothing that matters was published yet.
func (s *Session) ask(p packets.ControlPacket, until time.Time, is func(packets.ControlPacket) bool) (packets.ControlPacket, error) {
	if err := s.conn.SetDeadline(until); err != nil {
		return nil, err
	}
	// Where the broker has ended the connection already, the reason is in what can be read;
	// the error of writing says less.
	_ = p.Write(s.conn)
	for {
		answer, err := s.packet()
		switch {
		case err != nil:
			return nil, err
		case is(answer):
			return answer, s.conn.SetDeadline(time.Time{})
		}
		if m, ok := answer.(*packets.PublishPacket); ok {
			if err := s.Acknowledge(&Message{id: m.MessageID, quality: m.Qos}, until); err != nil {
				return nil, err
			}
		}
	}
}

// Subscribe asks for topics with quality 1.
func (s *Session) Subscribe(until time.Time, topics ...string) error {
	p := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	s.last++
	p.MessageID, p.Topics, p.Qoss = s.last, topics, slices.Repeat([]byte{1}, len(topics))
	answer, err := s.ask(p, until, func(a packets.ControlPacket) bool {
		ack, ok := a.(*packets.SubackPacket)
		return ok && ack.MessageID == p.MessageID
	})
	if err != nil {
		return err
	}
	if codes := answer.(*packets.SubackPacket).ReturnCodes; len(codes) != len(topics) || slices.ContainsFunc(codes, func(c byte) bool { return c > 2 }) {
		return ErrDenied
	}
	return nil
}

// Publish publishes with quality 1, and waits until the broker has taken it.
func (s *Session) Publish(until time.Time, topic string, payload []byte) error {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	s.last++
	p.Qos, p.MessageID, p.TopicName, p.Payload = 1, s.last, topic, payload
	_, err := s.ask(p, until, func(a packets.ControlPacket) bool {
		ack, ok := a.(*packets.PubackPacket)
		return ok && ack.MessageID == p.MessageID
	})
	return err
}

// Next waits for the next message.
func (s *Session) Next() (*Message, error) {
	for {
		p, err := s.packet()
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case *packets.PublishPacket:
			if p.Qos > 1 {
				return nil, engine.ProtocolError("a message of a quality that was not asked for")
			}
			return &Message{p.TopicName, p.Payload, p.MessageID, p.Qos}, nil
		case *packets.PingrespPacket, *packets.SubackPacket:
		default:
			return nil, engine.ProtocolError(fmt.Sprintf("%s, which a broker does not send here", name(p)))
		}
	}
}

// writeTime bounds the sending of some bytes to a broker that does not read.
const writeTime = 10 * time.Second

// Acknowledge tells the broker that a message has come.
func (s *Session) Acknowledge(m *Message, now time.Time) error {
	if m.quality == 0 {
		return nil
	}
	if err := s.conn.SetWriteDeadline(now.Add(writeTime)); err != nil {
		return err
	}
	p := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
	p.MessageID = m.id
	return p.Write(s.conn)
}

// Ping says that the client is still there.
func (s *Session) Ping(now time.Time) error {
	if err := s.conn.SetWriteDeadline(now.Add(writeTime)); err != nil {
		return err
	}
	return packets.NewControlPacket(packets.Pingreq).Write(s.conn)
}

// Disconnect says that the client leaves; the broker closes the connection then, which
// Next notices.
func (s *Session) Disconnect(now time.Time) error {
	if err := s.conn.SetWriteDeadline(now.Add(writeTime)); err != nil {
		return err
	}
	return packets.NewControlPacket(packets.Disconnect).Write(s.conn)
}

// Leave disconnects and waits until the broker has closed the connection, so that its port
// is free again on this side. Nobody else may read meanwhile.
func (s *Session) Leave(now time.Time) {
	if s.Disconnect(now) == nil && s.conn.SetReadDeadline(now.Add(writeTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(s.in, maxPacket))
	}
	s.Close()
}

// Close ends the connection at once.
func (s *Session) Close() {
	s.close.Do(func() {
		s.stop()
		_ = s.conn.Close()
	})
}

// packet reads one.
func (s *Session) packet() (packets.ControlPacket, error) {
	if err := s.weigh(); err != nil {
		return nil, err
	}
	p, err := packets.ReadPacket(s.in)
	var netErr net.Error
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &netErr), errors.Is(err, net.ErrClosed):
		return nil, err
	}
	return nil, engine.ProtocolError(err.Error())
}

// weigh waits for the header of the next packet and refuses one that is too long; it takes
// nothing away. The length has at most four bytes (MQTT 3.1.1, 2.2.3).
func (s *Session) weigh() error {
	for n := 2; n <= 5; n++ {
		head, err := s.in.Peek(n)
		switch {
		case errors.Is(err, io.EOF) && len(head) == 0:
			return engine.ErrNoAnswer
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		if head[n-1]&0x80 != 0 {
			continue
		}
		length := 0
		for i, b := range head[1:n] {
			length |= int(b&0x7f) << (7 * i)
		}
		if length > maxPacket {
			return engine.ProtocolError(fmt.Sprintf("a packet of %d bytes: at most %d are taken", length, maxPacket))
		}
		return nil
	}
	return engine.ProtocolError("the length of a packet has more than four bytes")
}

// name is that of a packet's kind.
func name(p packets.ControlPacket) string {
	switch p.(type) {
	case *packets.PublishPacket:
		return "PUBLISH"
	case *packets.SubackPacket:
		return "SUBACK"
	case *packets.PubackPacket:
		return "PUBACK"
	case *packets.ConnackPacket:
		return "CONNACK"
	}
	return fmt.Sprintf("a packet %T", p)
}
