package sun.misc;

import java.util.Base64;

/** Writes the text of Java 8's class of this name, which Storm 1.0 uses and Java 17 lacks. */
public class BASE64Encoder {
    public String encode(byte[] bytes) {
        String line = Base64.getEncoder().encodeToString(bytes);
        StringBuilder text = new StringBuilder();
        for (int start = 0; start < line.length(); start += 76) {
            int end = Math.min(start + 76, line.length());
            text.append(line, start, end);
            if (end - start == 76) text.append('\n');
        }
        return text.toString();
    }
}
