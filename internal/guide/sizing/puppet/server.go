package puppet

// Server describes the Puppet Server to size, and the web servers on its machine.
type Server struct {
	Copy       string // the copied machine that was searched; "" for this machine
	Version    string // "" if none is installed
	Enterprise bool   // Puppet Enterprise: its Code Manager versions the code
	Satellite  bool   // its installer owns the server's files
	RedHat     bool   // web servers have the file layout of Red Hat's packages

	Static    bool   // value of static_catalogs
	StaticAt  string // position of the line that sets it to false
	Versioned bool   // code-id-command is set

	Interpreters int    // effective number, set or default
	Heap         uint64 // bytes; 0 if unknown
	CodeCache    uint64 // bytes; 0 if not set

	// Files.
	Options      string // directory of its HOCON files, without leading /
	OptionsFile  string // of max-active-instances, without leading /
	OptionsText  string
	CommandsAt   string // position of a static catalogs command outside its own file, or ""
	HeadersAt    string // position of allow-header-cert-info, or ""
	Headers      bool   // value of allow-header-cert-info
	Webserver    string // webserver.conf with plain HTTP on the loopback
	WebserverNo  string // why Webserver is empty
	JavaFile     string // of JAVA_ARGS, without leading /
	JavaText     string
	Environments string // directory of the environments
	Data         string // a directory that the server's user can write
	User         string
	// OptionSet and JavaSet return a file's text with a changed value.
	OptionSet func(text, key, value string) (string, error)
	JavaSet   func(text string, sizes map[string]string) (string, error)

	// Paths of the server's own TLS files; "" if unknown.
	Certificate, Key, CA, CRL string

	// FileRule describes a rule of auth.conf that denies some nodes files which a cache would
	// serve to all ("FILE:LINE does not ..."), or is "".
	FileRule string

	Nginx, Apache string // versions; "" if not installed
}
