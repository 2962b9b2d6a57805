package network

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Protocol is the name of the protocol. Both sides must use the same.
const Protocol = "fettle/bench-network-peer/v2"

// defaultPort is the port of a peer, of TCP and UDP.
const defaultPort = 5219

// KeyVariable is the environment variable that may have the key of a peer.
const KeyVariable = "FETTLE_NETWORK_KEY"

// ErrKey is returned if the other side does not know the key.
var ErrKey = errors.New("the key is not the peer's; copy it from the output of fettle bench network --serve")

// hello is the first message of both sides.
type hello struct {
	Protocol string `json:"protocol"`
	Nonce    string `json:"nonce"`           // 32 hexadecimal digits
	Proof    string `json:"proof,omitempty"` // that the sender knows the key
	Name     string `json:"name,omitempty"`  // host name of the peer
	End      End    `json:"end,omitzero"`
}

// End describes the properties of one end of the path that limit TCP.
type End struct {
	// RmemMax and WmemMax are the maximum sizes of a TCP receive and send buffer in bytes, the last
	// values of net.ipv4.tcp_rmem and tcp_wmem; 0 if unknown.
	RmemMax int64 `json:"tcp_rmem_max_bytes,omitempty"`
	WmemMax int64 `json:"tcp_wmem_max_bytes,omitempty"`
	CPUs    int   `json:"cpus,omitempty"`
	// Boot is the kernel's boot_id: both ends of a connection may be one machine.
	Boot string `json:"boot_id,omitempty"`
	// Interface is the interface with the connection's local address, Kind its kind, such as vxlan
	// (the kernel's DEVTYPE), and MTU its MTU in bytes. Congestion is the connection's congestion
	// control.
	Interface  string `json:"interface,omitempty"`
	Kind       string `json:"interface_kind,omitempty"`
	MTU        int    `json:"mtu_bytes,omitempty"`
	Congestion string `json:"congestion_control,omitempty"`
}

// request is a message to the peer. Exactly one field is set, except that From belongs to Train.
type request struct {
	Stream *streamJob `json:"stream,omitempty"` // prepare streams
	Go     bool       `json:"go,omitempty"`     // start the prepared streams
	Train  uint32     `json:"train,omitempty"`  // report a train of probes
	From   int        `json:"from,omitempty"`   // with Train: from this entry of the log on
	Path   bool       `json:"path,omitempty"`   // report the ICMP messages about sizes
}

// answer is a message of the peer. Exactly one field is set.
type answer struct {
	Ready  bool          `json:"ready,omitempty"`
	Stream *streamReport `json:"stream,omitempty"`
	Train  *trainLog     `json:"train,omitempty"`
	Told   *int          `json:"told_mtu_bytes,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// maxMessage is the maximum size of a message in bytes.
const maxMessage = 1 << 20

// greeting is the time limit of the exchange of keys.
const greeting = 5 * time.Second

// control is the connection with the messages.
type control struct {
	conn net.Conn
	in   *bufio.Scanner
	mu   sync.Mutex // protects writing
}

func newControl(conn net.Conn) *control {
	c := &control{conn: conn, in: bufio.NewScanner(conn)}
	c.in.Buffer(make([]byte, 0, 4<<10), maxMessage)
	return c
}

func (c *control) write(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

func (c *control) read(message any) error {
	if !c.in.Scan() {
		if err := c.in.Err(); err != nil {
			return err
		}
		return errors.New("the connection was closed")
	}
	if err := json.Unmarshal(c.in.Bytes(), message); err != nil {
		return fmt.Errorf("not a message of %s: %.100q", Protocol, c.in.Bytes())
	}
	return nil
}

// NewKey returns a key for one peer: 32 hexadecimal digits.
func NewKey() string { return randomHex() }

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// session has what both sides derive from the key and their nonces.
type session struct {
	key, peer, client string // key and nonces
}

func (s session) derive(purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(s.key))
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s", Protocol, purpose, s.peer, s.client)
	return mac.Sum(nil)
}

func (s session) proof(side string) string {
	return hex.EncodeToString(s.derive("proof of the " + side))
}

// token begins each connection with data, and tag each datagram.
func (s session) token() (t [16]byte) { return [16]byte(s.derive("connection")) }
func (s session) tag() (t [8]byte)    { return [8]byte(s.derive("datagram")) }

// greetAsPeer exchanges the first messages with a client. It returns ErrKey for another key. admit
// is called before the last message, after which the client opens further connections.
func greetAsPeer(c *control, key, name string, end End, admit func(session) error) error {
	_ = c.conn.SetDeadline(time.Now().Add(greeting))
	defer func() { _ = c.conn.SetDeadline(time.Time{}) }()
	s := session{key: key, peer: randomHex()}
	if err := c.write(hello{Protocol: Protocol, Nonce: s.peer}); err != nil {
		return err
	}
	var h hello
	if err := c.read(&h); err != nil {
		return err
	}
	if h.Protocol != Protocol {
		return fmt.Errorf("the client has protocol %.100q, this peer %s; use the same version of fettle", h.Protocol, Protocol)
	}
	s.client = h.Nonce
	if len(h.Nonce) != 32 || !hmac.Equal([]byte(h.Proof), []byte(s.proof("client"))) {
		return ErrKey
	}
	if err := admit(s); err != nil {
		return err
	}
	return c.write(hello{Protocol: Protocol, Nonce: s.peer, Proof: s.proof("peer"), Name: name, End: end})
}

// greetAsClient exchanges the first messages with a peer.
func greetAsClient(c *control, key string) (session, hello, error) {
	_ = c.conn.SetDeadline(time.Now().Add(greeting))
	defer func() { _ = c.conn.SetDeadline(time.Time{}) }()
	s := session{key: key, client: randomHex()}
	var h hello
	if err := c.read(&h); err != nil {
		return s, h, fmt.Errorf("no answer of fettle bench network --serve, which may serve another client already: %w", err)
	}
	if h.Protocol != Protocol || len(h.Nonce) != 32 {
		return s, h, fmt.Errorf("the peer has protocol %.100q, this fettle %s; use the same version on both machines", h.Protocol, Protocol)
	}
	s.peer = h.Nonce
	if err := c.write(hello{Protocol: Protocol, Nonce: s.client, Proof: s.proof("client")}); err != nil {
		return s, h, err
	}
	if err := c.read(&h); err != nil {
		return s, h, ErrKey // a peer closes the connection if the key is another
	}
	if !hmac.Equal([]byte(h.Proof), []byte(s.proof("peer"))) {
		return s, h, ErrKey
	}
	return s, h, nil
}
