package mosquitto

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/product"
)

// topics are the broker's own status topics; the broker retains their last values.
var topics = []string{
	"$SYS/broker/version", "$SYS/broker/uptime", "$SYS/broker/clients/connected", "$SYS/broker/clients/maximum", "$SYS/broker/clients/disconnected",
	"$SYS/broker/publish/messages/dropped", "$SYS/broker/heap/current", "$SYS/broker/store/messages/count",
}

// Packet types of MQTT 3.1.1 (section 2.2.1), including their flags.
const (
	packetConnect    = 0x10
	packetConnAck    = 0x20
	packetPublish    = 0x30
	packetSubscribe  = 0x82
	packetSubAck     = 0x90
	packetPing       = 0xc0
	packetPong       = 0xd0
	packetDisconnect = 0xe0
)

// maxPacket is the size limit of a packet, in bytes.
const maxPacket = 64 << 10

// patience is the time limit of one connection.
const patience = 5 * time.Second

// mqtt is one connection to a broker.
type mqtt struct {
	c net.Conn
	r *bufio.Reader
}

// dial connects to a listener; the error is product.ErrStopped if nothing listens.
func dial(ctx context.Context, l listener) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, l.network, l.address)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil, product.ErrStopped
	}
	return c, err
}

// open sends an MQTT 3.1.1 CONNECT without a user name, and returns the return code (3.2.2.3). A
// healthy broker returns 0 (accepted) or 5 (not authorized).
func open(ctx context.Context, l listener) (m *mqtt, code byte, err error) {
	// Protocol level 4, clean session, keep-alive of one minute, no client id.
	m, body, err := connect(ctx, l, append(field("MQTT"), 4, 2, 0, 60, 0, 0))
	if err != nil {
		return nil, 0, err
	}
	return m, body[1], nil
}

// limits sends an MQTT 5 CONNECT and returns the broker's options from the response (MQTT 5.0,
// 3.2.2.3), or none if the broker refuses.
func limits(ctx context.Context, l listener) (map[string]string, error) {
	// Protocol level 5, clean start, longest keep-alive, no properties, no client id.
	m, body, err := connect(ctx, l, append(field("MQTT"), 5, 2, 0xff, 0xff, 0, 0, 0))
	if err != nil {
		return nil, err
	}
	m.close()
	if body[1] != 0 {
		return map[string]string{}, nil
	}
	return readLimits(body[2:])
}

// readLimits parses the properties of a CONNACK. A value without a limit has no property.
func readLimits(body []byte) (map[string]string, error) {
	out := map[string]string{"max_inflight_messages": "0", "max_packet_size": "0", "max_keepalive": "65535"}
	n, used := binary.Uvarint(body)
	if used <= 0 || uint64(len(body)-used) < n {
		return nil, errCut
	}
	for body = body[used : used+int(n)]; len(body) > 0; {
		kind := body[0]
		body = body[1:]
		size := 0
		switch kind {
		case 0x24, 0x25, 0x28, 0x29, 0x2a: // maximum quality, available features
			size = 1
		case 0x13, 0x21, 0x22: // server keep alive, receive maximum, topic alias maximum
			size = 2
		case 0x11, 0x27: // session expiry, maximum packet size
			size = 4
		case 0x12, 0x15, 0x16, 0x1a, 0x1c, 0x1f: // texts
			if len(body) < 2 {
				return nil, errCut
			}
			size = 2 + int(binary.BigEndian.Uint16(body))
		default:
			return nil, fmt.Errorf("the CONNACK has the unknown property %x", kind)
		}
		if len(body) < size {
			return nil, errCut
		}
		switch kind {
		case 0x13:
			out["max_keepalive"] = strconv.Itoa(int(binary.BigEndian.Uint16(body)))
		case 0x21:
			out["max_inflight_messages"] = strconv.Itoa(int(binary.BigEndian.Uint16(body)))
		case 0x27:
			out["max_packet_size"] = strconv.FormatUint(uint64(binary.BigEndian.Uint32(body)), 10)
		}
		body = body[size:]
	}
	return out, nil
}

var errCut = errors.New("the answer is truncated")

// connect sends a CONNECT packet and returns the connection and the response's body.
func connect(ctx context.Context, l listener, packet []byte) (m *mqtt, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dial(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	if end, ok := ctx.Deadline(); ok { // for the whole exchange
		if err := c.SetDeadline(end); err != nil {
			c.Close()
			return nil, nil, err
		}
	}
	m = &mqtt{c, bufio.NewReader(c)}
	if err = m.send(packetConnect, packet); err == nil {
		var kind byte
		if kind, body, err = m.receive(); err == nil && (kind != packetConnAck || len(body) < 2) {
			err = fmt.Errorf("the answer is not MQTT: %x", kind)
		}
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return m, body, nil
}

func (m *mqtt) close() {
	_ = m.send(packetDisconnect, nil)
	m.c.Close()
}

// sys subscribes to the topics and returns their retained values, which arrive before the response
// to a ping.
func (m *mqtt) sys() (map[string]string, error) {
	body := []byte{0, 1} // packet identifier
	for _, t := range topics {
		body = append(append(body, field(t)...), 0)
	}
	if err := m.send(packetSubscribe, body); err != nil {
		return nil, err
	}
	if err := m.send(packetPing, nil); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for range 10 * len(topics) {
		kind, body, err := m.receive()
		if err != nil {
			return nil, err
		}
		switch kind & 0xf0 {
		case packetPong:
			return out, nil
		case packetPublish:
			topic, value, err := readPublish(kind, body)
			if err != nil {
				return nil, err
			}
			out[topic] = value
		}
	}
	return out, nil
}

// readPublish parses a PUBLISH packet (3.3).
func readPublish(kind byte, body []byte) (topic, value string, err error) {
	if len(body) < 2 || len(body) < 2+int(binary.BigEndian.Uint16(body)) {
		return "", "", errors.New("the PUBLISH has no topic")
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	topic, body = string(body[2:n]), body[n:]
	if kind&6 != 0 { // with quality 1 or 2, an identifier follows
		if len(body) < 2 {
			return "", "", errors.New("the PUBLISH has no packet identifier")
		}
		body = body[2:]
	}
	return topic, string(body), nil
}

// field returns a length-prefixed text (1.5.3).
func field(text string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
}

func (m *mqtt) send(kind byte, body []byte) error {
	_, err := m.c.Write(append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...))
	return err
}

// receive reads one packet; its length is encoded as by AppendUvarint (2.2.3).
func (m *mqtt) receive() (kind byte, body []byte, err error) {
	if kind, err = m.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(m.r)
	if err != nil {
		return 0, nil, err
	}
	if n > maxPacket {
		return 0, nil, fmt.Errorf("packet too large: %d bytes", n)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(m.r, body)
	return kind, body, err
}
