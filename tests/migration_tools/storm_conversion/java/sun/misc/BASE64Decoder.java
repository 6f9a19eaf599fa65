package sun.misc;

import java.io.IOException;
import java.util.Base64;

/** Reads the text that BASE64Encoder writes. */
public class BASE64Decoder {
    public byte[] decodeBuffer(String text) throws IOException {
        return Base64.getMimeDecoder().decode(text);
    }
}
