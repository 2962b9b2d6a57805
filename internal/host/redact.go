package host

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"fettle.dev/fettle/internal/text"
)

// Redacted is the text that replaces a secret.
const Redacted = "[redacted]"

// Redact removes confidential data from the content of file p: passwords, keys, tokens,
// private keys, credentials in URLs and headers, and machine identifiers (machine-id, serial
// numbers, UUID). If in doubt, it redacts. Applying it twice changes nothing. It keeps
// addresses (MAC, IP) and host names, because network reports are useless without them.
func Redact(p string, data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	if secretFile(p) {
		if bytes.HasSuffix(data, []byte("\n")) {
			return []byte(Redacted + "\n")
		}
		return []byte(Redacted)
	}
	if len(data) < 20 && !bytes.ContainsAny(data, "=:<$ \t\x00") {
		return data // one short word, as in most kernel files
	}
	if !bytes.ContainsFunc(data, func(r rune) bool { return (r < '0' || r > '9') && r != ' ' && r != '\t' && r != '\n' }) {
		return data // only numbers
	}
	if p == "/proc/cpuinfo" || p == "/proc/interrupts" {
		return data // large, and without user data
	}
	// A redaction may create a match of another pattern. Repeat until nothing changes, so that
	// a second call changes nothing.
	for range maxRounds {
		low, before := bytes.ToLower(data), data
		for _, r := range redactions() {
			switch {
			case !r.hinted(low):
			case r.lines:
				data = r.applyLines(data)
			default:
				data = r.apply(data)
			}
		}
		if bytes.Equal(data, before) {
			break
		}
	}
	return data
}

// maxRounds limits the work on malicious input. Normally two rounds suffice.
const maxRounds = 10

// secretFiles are path.Match patterns of files with entirely secret content.
var secretFiles = []string{
	"/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid",
	"/etc/shadow*", "/etc/gshadow*", "/etc/ssh/ssh_host_*_key", "/etc/krb5.keytab",
	"/etc/crypttab", "/root/.pgpass", "/root/.my.cnf", "/etc/ppp/*-secrets", "/etc/wpa_supplicant/*",
	"/proc/*/environ", "/proc/*/task/*/environ",
	"/proc/sys/net/ipv4/tcp_fastopen_key", "/proc/sys/net/ipv6/conf/*/stable_secret",
	"/sys/class/dmi/id/*_serial", "/sys/class/dmi/id/product_uuid",
	"/sys/devices/virtual/dmi/id/*_serial", "/sys/devices/virtual/dmi/id/product_uuid",
	"/sys/hypervisor/uuid",
}

// secretPattern is a pattern of secretFiles. Each match begins with first and ends with last.
type secretPattern struct{ pattern, first, last string }

// secretFilesBelow returns secretFiles by the first directory, which no pattern leaves open. A
// machine is read by thousands of files, most of them below /proc and /sys.
var secretFilesBelow = sync.OnceValue(func() map[string][]secretPattern {
	below := map[string][]secretPattern{}
	for _, pattern := range secretFiles {
		top, _, _ := strings.Cut(pattern[1:], "/")
		first, _, _ := strings.Cut(pattern, "*")
		below[top] = append(below[top], secretPattern{pattern, first, pattern[strings.LastIndexAny(pattern, "*/")+1:]})
	}
	return below
})

// secretNames are patterns of base names of files that are secret in any directory.
var secretNames = []string{
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.key", "*.keytab", "*.p12", "*.pfx",
	"*.jks", "*.kdbx", ".pgpass", ".netrc", ".my.cnf", "*.htpasswd", ".htpasswd",
}

func secretFile(p string) bool {
	if p == "" {
		return false
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	for _, s := range secretFilesBelow()[top] {
		if !strings.HasPrefix(p, s.first) || !strings.HasSuffix(p, s.last) {
			continue
		}
		if ok, _ := path.Match(s.pattern, p); ok {
			return true
		}
	}
	if strings.HasPrefix(p, "/sys/") || strings.HasPrefix(p, "/proc/sys/") {
		return false
	}
	base := path.Base(p)
	for _, pattern := range secretNames {
		if ok, _ := path.Match(pattern, base); ok {
			return true
		}
	}
	return false
}

// secretKey matches the name of a setting with a secret value.
const secretKey = `[\w.\-]*(?:` +
	`password|passwd|passphrase|passwort|\bpwd|_pwd|secret|token|credentials?|` +
	`api[_\-]?key|access[_\-]?key|private[_\-]?key|pre-?shared[_\-]?key|auth[_\-]?key|` +
	`encryption[_\-]?key|master[_\-]?key|account[_\-]?key|shared[_\-]?key|signing[_\-]?key|ssh[_\-]?key|` +
	`key[_\-]?data|\bpsk|_psk|-psk|masterauth|requirepass|bindpw|userpw|_pw\b|tcp_fastopen_key` +
	`)[\w.\-]*(?:\[[^\]\s]*\])?`

// value matches a quoted string, or everything up to the next space.
const value = `(?:"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[^\s\x00"'][^\s\x00]*)`

// redaction replaces the matches of pattern, except for its first and second group: the text
// before and after the secret. pattern only matches texts with one of the hints (lower case),
// so most files, which are single numbers, need no regular expression. looks, if set, reports
// whether a match is a secret.
type redaction struct {
	hints   [][]byte
	pattern func() *regexp.Regexp
	looks   func(secret []byte) bool
	// lines is true if no match extends over a newline, so lines without a hint can be skipped.
	lines bool
}

// applyLines is apply for the lines that have a hint.
func (r redaction) applyLines(data []byte) []byte {
	var out []byte
	done := 0 // bytes of data that are in out
	for from := 0; from < len(data); {
		line := data[from:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if r.hinted(bytes.ToLower(line)) {
			if redacted := r.apply(line); !bytes.Equal(redacted, line) {
				out = append(append(out, data[done:from]...), redacted...)
				done = from + len(line)
			}
		}
		from += len(line)
	}
	if out == nil {
		return data
	}
	return append(out, data[done:]...)
}

func (r redaction) apply(data []byte) []byte {
	var out []byte
	done := 0
	for _, m := range r.pattern().FindAllSubmatchIndex(data, -1) {
		from, to := m[0], m[1]
		if len(m) > 2 && m[3] >= 0 {
			from = m[3]
		}
		if len(m) > 4 && m[4] >= 0 {
			to = m[4]
		}
		if from < to && (data[from] == '"' || data[from] == '\'') {
			if from++; to > from && data[to-1] == data[from-1] {
				to--
			}
		}
		if from == to || bytes.HasPrefix(data[from:to], []byte(Redacted)) || r.looks != nil && !r.looks(data[from:to]) {
			continue
		}
		out = append(append(out, data[done:from]...), Redacted...)
		done = to
	}
	if out == nil {
		return data
	}
	return append(out, data[done:]...)
}

func (r redaction) hinted(low []byte) bool {
	for _, h := range r.hints {
		if bytes.Contains(low, h) {
			return true
		}
	}
	return false
}

// passwordLike reports whether an argument looks like a password. It accepts -phunter22, but
// not -print0, -p8080 or -path=x. A password has at least six characters, letters and digits,
// and no separators of paths, ports or lists.
func passwordLike(word []byte) bool {
	return len(word) >= 6 && !bytes.ContainsAny(word, "/=:,.") && bytes.ContainsAny(word, "0123456789") &&
		bytes.ContainsFunc(word, unicode.IsLetter)
}

func words(s string) [][]byte { return bytes.Fields([]byte(s)) }

// word matches a value that does not look like the start of an assignment.
const word = `(?:"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[^\s\x00"'=:][^\s\x00]*)`

var redactions = sync.OnceValue(func() []redaction {
	keyHints := words("pass pwd secret token key psk credential masterauth bindpw userpw _pw pbkdf2")
	return append([]redaction{
		// PEM, including truncated PEM, and PEM on one line with "\n" spelled out.
		{words("-----begin"), text.LazyRegexp(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`), nil, false},
		// scheme://user:password@host
		{words("://"), text.LazyRegexp(`([A-Za-z][A-Za-z0-9+.\-]*://)[^/\s"'<>\x00]+(@)`), nil, false},
		{words("authorization"), text.LazyRegexp(`(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?)(?:[a-z]+[ \t]+)?[^\s"'\x00]+(?:[ \t]+[^\s"'\x00]+)*`), nil, false},
		{words("bearer basic"), text.LazyRegexp(`(?i)\b((?:bearer|basic)[ \t\x00]+)[A-Za-z0-9+/=._~\-]{8,}`), nil, false},
		// "key": "value", key = value, key: value. At the start of a line an unquoted
		// value extends to the end of the line, as in configuration files.
		{keyHints, text.LazyRegexp(`(?im)^([ \t]*(?:export[ \t]+|set[ \t]+)?["']?` + secretKey + `["']?[ \t]*[=:][ \t]*)[^\s"'\x00][^\n\x00]*$`), nil, true},
		{keyHints, text.LazyRegexp(`(?i)(` + secretKey + `\\?["']?[ \t]*(?:=>|:=|[=:])[ \t\x00]*)` + `\\?` + value), nil, true},
		// --password VALUE, requirepass VALUE, <password>VALUE</password>
		{keyHints, text.LazyRegexp(`(?i)(` + secretKey + `[ \t\x00]+)` + word), nil, true},
		{keyHints, text.LazyRegexp(`(?i)(<` + secretKey + `[^>\n]*>)[^<]*`), nil, false},
		// auth=VALUE, bearer=VALUE, rd.luks.key=VALUE: only as the whole last part of
		// the name, and only in assignments, because the words are common in prose.
		{words("auth bearer key"), text.LazyRegexp(`(?i)((?:(?:\b|_)(?:auth|bearer)|[\w\-][._\-]key)\\?(?:["'][ \t]*:[ \t]*|["']?[ \t]*(?:=>|:=|=)[ \t]*))` + `\\?` + value), nil, true},
		// Options of wireless modules: key=VALUE, key2=VALUE; wep_key0=VALUE, wireless-key
		// s:VALUE. Prose contains "key = value", the kernel's keyboard lists KEY=BITS.
		{words("key"), text.LazyRegexp(`(?m)((?:^|[\s\x00,;"'])key[0-9]*=)` + value), nil, false},
		{words("wirel wep wpa"), text.LazyRegexp(`(?i)(\b(?:wireless|wep|wpa)[_\-]?key[0-9]*[ \t]*[= \t][ \t]*)` + word), nil, false},
		{words("community"), text.LazyRegexp(`(?i)\b((?:ro|rw)?community6?[ \t=:]+)` + value), nil, false},
		// mysql -pSECRET, sshpass -p SECRET, curl -u user:SECRET
		{words("mysql mariadb"), text.LazyRegexp(`(?i)((?:mysql|mariadb)[\w.\-]*(?:[ \t\x00]|=["']?)(?:[^\n]*?[ \t\x00])??-p)[^\s\x00"']+`), nil, false},
		{words("-p"), text.LazyRegexp(`(?m)((?:^|[\s\x00"'=])-p)[^\s\x00"']+`), passwordLike, false},
		{words("sshpass"), text.LazyRegexp(`(?i)(sshpass[ \t\x00]+-p[ \t\x00]*)` + value), nil, false},
		{words("-u --user --proxy-user"), text.LazyRegexp(`([ \t\x00](?:-u|--user|--proxy-user)[ \t\x00=]*)[^\s\x00:]+:[^\s\x00]+`), nil, false},
		// GRUB: password_pbkdf2 USER HASH
		{words("pbkdf2"), text.LazyRegexp(`(password_pbkdf2[ \t]+\S+[ \t]+)\S+`), nil, false},
		{words("pbkdf2"), text.LazyRegexp(`grub\.pbkdf2\.\S+`), nil, false},
		// Redis ACL: user NAME on >SECRET
		{words("user"), text.LazyRegexp(`(?m)(^[ \t]*user[ \t]+\S+[ \t].*?[ \t][>#])\S+`), nil, false},
		// Well-known token formats, crypt(3) hashes, JWT, signed URLs.
		{words("akia asia"), text.LazyRegexp(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), nil, false},
		{words("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ xox glpat-"), text.LazyRegexp(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abeoprs]-[A-Za-z0-9\-]{10,}|glpat-[\w\-]{20,})`), nil, false},
		{words("eyj"), text.LazyRegexp(`\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?`), nil, false},
		{words("$"), text.LazyRegexp(`\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w*)\$[^\s:"'\x00]{8,}`), nil, false},
		{words("sig= signature= code="), text.LazyRegexp(`(?i)([?&](?:sig|signature|x-amz-signature|code)=)[^&\s"'\x00]+`), nil, false},
	}, commandRedactions()...)
})
