package mosquitto

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of mosquitto.conf (mosquitto.conf(5), src/conf.c): each line has a name,
// blanks and a value. A listener's options follow its line, and their keys contain the listener:
// "listener 1883/max_connections". Before the first listener, in each file, they belong to the
// default listener.
type syntax struct{ conf.Words }

// ofListener are the options that belong to a listener.
var ofListener = []string{
	"bind_interface", "cafile", "capath", "certfile", "ciphers", "ciphers_tls1.3", "crlfile", "dhparamfile", "http_dir", "keyfile", "max_connections",
	"max_qos", "max_topic_alias", "max_topic_alias_broker", "mount_point", "protocol", "psk_hint", "require_certificate", "socket_domain", "tls_engine",
	"tls_engine_kpass_sha1", "tls_keyform", "tls_version", "use_identity_as_username", "use_subject_as_username", "use_username_as_clientid",
	"websockets_headers_size", "websockets_origin",
}

// Key implements conf.Syntax.
func (s syntax) Key(name string) (string, error) {
	listener, option := conf.SplitKey(name)
	option, err := s.Words.Key(option)
	if err != nil {
		return "", err
	}
	if listener == "" {
		return option, nil
	}
	if err := conf.OneLine(listener); err != nil || !strings.HasPrefix(listener, "listener ") || strings.ContainsAny(listener, "#") || !slices.Contains(ofListener, option) {
		return "", fmt.Errorf("%q is not a listener option; want one such as \"listener 1883/max_connections\"", name)
	}
	return strings.Join(strings.Fields(listener), " ") + "/" + option, nil
}

// maxAssignments is the maximum number of options of one file.
const maxAssignments = 200000

// Assignments implements conf.Syntax. The result contains include_dir and the listeners.
func (s syntax) Assignments(text string) ([]conf.Assignment, error) {
	all, err := s.Words.Assignments(text)
	if err != nil {
		return nil, err
	}
	if len(all) > maxAssignments {
		return nil, fmt.Errorf("%d: more than %d options", all[maxAssignments].Line, maxAssignments)
	}
	listener := ""
	for n, a := range all {
		switch {
		case a.Key == "listener":
			listener = "listener " + strings.Join(strings.Fields(a.Literal), " ")
		case listener != "" && slices.Contains(ofListener, a.Key):
			all[n].Key = listener + "/" + a.Key
		}
	}
	return all, nil
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string {
	_, option := conf.SplitKey(key)
	return option + " " + literal
}

// Place implements conf.Placer. A broker option goes to the end, after the includes. An option of
// the default listener goes to the beginning; one of another listener below the listener's line.
func (s syntax) Place(text, key string) (int, error) {
	listener, option := conf.SplitKey(key)
	if listener == "" {
		if parameters.Named(option) == nil {
			return 0, fmt.Errorf("%s is not set; add it by hand", key)
		}
		if slices.Contains(ofListener, option) {
			return 0, nil
		}
		return len(text), nil
	}
	all, err := s.Assignments(text)
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		if a.Key == "listener" && "listener "+strings.Join(strings.Fields(a.Literal), " ") == listener {
			end := strings.IndexByte(text[a.To:], '\n')
			if end < 0 {
				break
			}
			return a.To + end + 1, nil
		}
	}
	return 0, fmt.Errorf("the main file has no %s on its own line; add %s by hand", listener, option)
}
