// A client's MQTT 3.1.1 connection to a broker. The memory for a message is limited.

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
	internaltext "fettle.dev/fettle/internal/text"
)

// Limits on messages.
const (
	maxPacket   = 64 << 10 // the body of a packet
	bufferBytes = 512      // about the length of a notification
)

// refusedError is returned for a CONNACK that rejects the client (MQTT 3.1.1, 3.2.2.3).
type refusedError struct{ Code byte }

func (e *refusedError) Error() string {
	text := packets.ConnackReturnCodes[e.Code]
	if text == "" {
		text = "Unknown"
	}
	return fmt.Sprintf("the broker refused the connection: CONNACK %d (%s)", e.Code, text)
}

// errDenied is returned if the broker rejects a subscription.
var errDenied = errors.New("the broker does not grant the subscription (SUBACK 0x80)")

// errClosed is returned if the broker closed the connection before CONNACK, as mosquitto does
// at its limit of clients.
var errClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "the broker closed the connection before CONNACK" }
func (closedError) Unwrap() error { return engine.ErrNoAnswer }

// Message is a message published to a topic to which the client subscribed.
type Message struct {
	Topic   string
	Payload []byte
	id      uint16
	quality byte
}

// Session is an accepted connection. One goroutine reads (Next); others may ping and close
// concurrently.
type Session struct {
	// Early, if not nil, gets the messages that arrive before an acknowledgment for which the
	// session waits. They are dropped otherwise.
	Early func(*Message)

	conn  net.Conn
	in    *bufio.Reader
	last  uint16 // last used packet identifier
	close sync.Once
	stop  func() bool // detaches the session from the dialer's context
}

// connectError is returned if connecting to the broker failed.
type connectError struct{ Err error }

func (e *connectError) Error() string { return e.Err.Error() }
func (e *connectError) Unwrap() error { return e.Err }

// Open connects with a client identifier and a clean session, as yggdrasil does. The session
// is closed when the dialer's context ends.
func Open(d *engine.Dialer, client string, keepAlive time.Duration, until time.Time) (*Session, error) {
	conn, err := d.Dial(until)
	if err != nil {
		return nil, &connectError{err}
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

// enter sends CONNECT and waits for a CONNACK that accepts the client.
func (s *Session) enter(client string, keepAlive time.Duration, until time.Time) error {
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion = "MQTT", 4
	p.CleanSession, p.ClientIdentifier, p.Keepalive = true, client, uint16(keepAlive.Seconds())
	answer, err := s.ask(p, until, func(a packets.ControlPacket) bool { return true })
	switch {
	case errors.Is(err, engine.ErrNoAnswer), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errClosed
	case err != nil:
		return err
	}
	ack, ok := answer.(*packets.ConnackPacket)
	switch {
	case !ok:
		return engine.ProtocolError(fmt.Sprintf("%s instead of CONNACK", name(answer)))
	case ack.ReturnCode != packets.Accepted:
		return &refusedError{ack.ReturnCode}
	}
	return nil
}

// ask sends a packet and waits for its answer. Messages that arrive earlier are acknowledged
// and dropped: no relevant message is published before.
func (s *Session) ask(p packets.ControlPacket, until time.Time, is func(packets.ControlPacket) bool) (packets.ControlPacket, error) {
	if err := s.conn.SetDeadline(until); err != nil {
		return nil, err
	}
	// Ignore a write error: if the broker closed the connection, reading returns the reason.
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
			early := &Message{m.TopicName, m.Payload, m.MessageID, m.Qos}
			if err := s.Acknowledge(early, until); err != nil {
				return nil, err
			}
			if s.Early != nil {
				s.Early(early)
			}
		}
	}
}

// Subscribe subscribes to topics with QoS 1.
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
		return errDenied
	}
	return nil
}

// Publish publishes with QoS 1 and waits for the acknowledgment.
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

// Next waits for the next message. It ignores other packets.
func (s *Session) Next() (*Message, error) {
	for {
		p, err := s.packet()
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case *packets.PublishPacket:
			if p.Qos > 1 {
				return nil, engine.ProtocolError("a message with a QoS that was not requested")
			}
			return &Message{p.TopicName, p.Payload, p.MessageID, p.Qos}, nil
		case *packets.PingrespPacket, *packets.SubackPacket:
		default:
			return nil, engine.ProtocolError(fmt.Sprintf("unexpected %s", name(p)))
		}
	}
}

// NextUntil waits for the next message until a time.
func (s *Session) NextUntil(until time.Time) (*Message, error) {
	if err := s.conn.SetReadDeadline(until); err != nil {
		return nil, err
	}
	return s.Next()
}

// writeTime limits a write to a broker that does not read.
const writeTime = 10 * time.Second

// Acknowledge sends PUBACK for a message of QoS 1.
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

// Ping sends PINGREQ.
func (s *Session) Ping(now time.Time) error {
	if err := s.conn.SetWriteDeadline(now.Add(writeTime)); err != nil {
		return err
	}
	return packets.NewControlPacket(packets.Pingreq).Write(s.conn)
}

// Disconnect sends DISCONNECT. The broker then closes the connection, which Next reports.
func (s *Session) Disconnect(now time.Time) error {
	if err := s.conn.SetWriteDeadline(now.Add(writeTime)); err != nil {
		return err
	}
	return packets.NewControlPacket(packets.Disconnect).Write(s.conn)
}

// Leave disconnects and waits until the broker has closed the connection. The local port is
// then free again. No other goroutine may read during the call.
func (s *Session) Leave(now time.Time) {
	if s.Disconnect(now) == nil && s.conn.SetReadDeadline(now.Add(writeTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(s.in, maxPacket))
	}
	s.Close()
}

// Close closes the connection at once.
func (s *Session) Close() {
	s.close.Do(func() {
		s.stop()
		_ = s.conn.Close()
	})
}

// packet reads the next packet. It returns an error if it is malformed or too long.
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

// weigh waits for the header of the next packet without consuming it. It rejects a packet that
// is too long. The length takes at most four bytes (MQTT 3.1.1, 2.2.3).
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
			return engine.ProtocolError(internaltext.Sprintf("a packet of %s; the limit is %d", internaltext.Count(length, "byte"), maxPacket))
		}
		return nil
	}
	return engine.ProtocolError("the length of a packet has more than four bytes")
}

// name returns the name of a packet's type.
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
