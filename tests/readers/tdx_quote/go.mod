module affiant.invalid/readers/tdx_quote

go 1.21

require github.com/google/go-tdx-guest v0.3.1

require (
	github.com/google/logger v1.1.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/crypto v0.17.0 // indirect
	golang.org/x/sys v0.15.0 // indirect
	google.golang.org/protobuf v1.31.0 // indirect
)
