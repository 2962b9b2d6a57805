package host

import (
	"bytes"

	"fettle.dev/fettle/internal/lazyregexp"
)

// in is what stands between a command and one of its options.
const in = `[ \t\x00](?:[^\n|;&]*?[ \t\x00])??`

// passKey is the name of a setting that ends in "pass": DB_PASS, sshpass, but not
// bypass, PASS_MAX_DAYS or PassEnvironment.
const passKey = `(?:\b|_|\b(?:ssh|user|db|my|pg|ftp|smtp|imap|ldap|mail|root|admin|login|key|store|auth|http|snmp|vpn|proxy|redis|git|svn)` +
	`|_(?:ssh|user|db|key|store))pass`

// commandRedactions are secrets in the forms that single commands and formats
// give them, beside those that a name with "password", "secret" or the like
// announces.
func commandRedactions() []redaction {
	return []redaction{
		// pass=VALUE, "pass": VALUE, pass: VALUE at the start of a line, --pass VALUE
		{words("pass"), lazyregexp.New(`(?i)(` + passKey + `\\?["']?[ \t]*(?:=>|:=|=)[ \t]*)` + `\\?` + value), nil},
		{words("pass"), lazyregexp.New(`(?i)(` + passKey + `\\?["'][ \t]*:[ \t]*)` + `\\?` + value), nil},
		{words("pass"), lazyregexp.New(`(?im)^([ \t]*(?:-[ \t]+)?[\w.\-]*` + passKey + `:[ \t]+)[^\n\x00]+$`), nil},
		{words("pass"), lazyregexp.New(`(?i)((?:--[\w\-]*\bpass|\b[\w\-]*_pass)[ \t\x00]+)` + word), nil},
		// openssl -passin pass:SECRET
		{words("-pass"), lazyregexp.New(`(?i)([ \t\x00]-pass(?:in|out)?[ \t\x00]+(?:pass:)?)` + value), nil},
		// dracut: netroot=iscsi:USER:SECRET[:USER:SECRET]@HOST
		{words("iscsi: cifs:"), lazyregexp.New(`(?i)(\b(?:iscsi|cifs):(?://)?)[^\s@"'\x00]+(@)`), nil},
		// The DSN of a driver: USER:SECRET@tcp(HOST), thin:USER/SECRET@HOST
		{words("@tcp( @unix("), lazyregexp.New(`(\b[\w.\-]+:)[^\s@"'\x00]+(@(?:tcp|unix)\()`), nil},
		{words("oracle:thin: sqlplus"), lazyregexp.New(`(?i)((?:oracle:thin:|sqlplus` + in + `)[^\s/@]+/)[^\s@"'\x00]+`), nil},
		// SNMP: snmp_community=VALUE, com2sec NAME SOURCE VALUE, snmpwalk -c VALUE
		{words("community"), lazyregexp.New(`(?i)(\b\w*[_\-]community[\w\-]*["']?[ \t]*[=:][ \t]*)` + value), nil},
		{words("community_string communitystring"), lazyregexp.New(`(?i)(community_?string["']?[ \t]*[=:][ \t]*)` + value), nil},
		{words("com2sec"), lazyregexp.New(`(?im)^([ \t]*com2sec6?[ \t]+(?:-Cn[ \t]+\S+[ \t]+)?\S+[ \t]+\S+[ \t]+)\S+`), nil},
		{words("trapsink trap2sink informsink"), lazyregexp.New(`(?im)^([ \t]*(?:trap2?|inform)sink[ \t]+\S+[ \t]+)\S+`), nil},
		{words("snmp"), lazyregexp.New(`(?i)(\bsnmp\w+` + in + `-[cAX][ \t\x00]*)` + value), nil},
		{words("createuser"), lazyregexp.New(`(?im)^([ \t]*createUser[ \t]+)\S.*$`), nil},
		// Options that mean a password to one command, and something else to others.
		{words("ipmitool mosquitto_ sqlcmd bcp"), lazyregexp.New(`(\b(?:ipmitool|mosquitto_(?:pub|sub|rr)|sqlcmd|bcp)` + in + `-[PE][ \t\x00]*)` + value), nil},
		{words("ipmi- bmc- mongo login"), lazyregexp.New(`(\b(?:ipmi-\w+|bmc-\w+|mongo\w*|(?:docker|podman|buildah|skopeo|helm|oc|az)[ \t\x00]+(?:registry[ \t\x00]+)?login)` + in + `-p[ \t\x00]*)` + value), nil},
		{words("ldap"), lazyregexp.New(`(\bldap\w+` + in + `-w[ \t\x00]*)` + value), nil},
		{words("redis-cli"), lazyregexp.New(`(\bredis-cli` + in + `-a[ \t\x00]+)` + value), nil},
		{words("curl"), lazyregexp.New(`(\bcurl` + in + `-(?:U|E)[ \t\x00]*[^\s:\x00]+:)` + value), nil},
		{words("lftp"), lazyregexp.New(`(\blftp` + in + `-u[ \t\x00]*[^\s,\x00]+,)` + value), nil},
		{words("smb rpcclient cifs net"), lazyregexp.New(`(?i)(\b(?:smb\w+|rpcclient|cifs|net[ \t\x00]+(?:ads|rpc))` + in + `(?:\S*,)?(?:-U[ \t\x00]*|--user=|user(?:name)?=)[^\s%,"'\x00]+%)[^\s,"'\x00]+`), nil},
		{words("rdp"), lazyregexp.New(`(?i)(\b\w*(?:freerdp|rdesktop)\w*` + in + `(?:/p:|-p[ \t\x00]*))` + value), nil},
		{words("htpasswd"), lazyregexp.New(`(\bhtpasswd[ \t\x00]+(?:-\w*b\w*|\[redacted\])[ \t\x00]+\S+[ \t\x00]+\S+[ \t\x00]+)` + value), nil},
		{words("wpa_passphrase"), lazyregexp.New(`(\bwpa_passphrase[ \t\x00]+` + value + `[ \t\x00]+)` + value), nil},
		// GRUB: password USER SECRET
		{words("password"), lazyregexp.New(`(?m)^([ \t]*password[ \t]+\S+[ \t]+)\S+[ \t]*$`), func(s []byte) bool { return !bytes.HasSuffix(bytes.TrimSpace(s), []byte(".so")) }},
		// echo SECRET | passwd --stdin, echo USER:SECRET | chpasswd
		{words("passwd sudo cryptsetup kinit"), lazyregexp.New(`(\becho[ \t]+(?:-\w+[ \t]+)*)(?:"[^"\n]*"|'[^'\n]*'|[^\s|]+)([ \t]*\|[ \t]*(?:sudo[ \t]+-\w*S|(?:sudo[ \t]+)?(?:/\S*/)?(?:passwd|chpasswd|cryptsetup|kinit)))`), nil},
		// Cookies
		{words("cookie:"), lazyregexp.New(`(?i)((?:set-)?cookie:[ \t]*)[^\s"'\x00][^\n"'\x00]*`), nil},
	}
}
